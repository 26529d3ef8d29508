"""A proxy process on a real Slurm and a real NATS, and a client of it."""

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import MESSAGE_ID, Message, decode
from clusterra_contracts.bus.topology import EVENT
from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef, JobId, SlurmUser, Wire, now
from clusterra_contracts.queue import NodeState, PendingJobs, QueueSnapshot, RunningJob
from clusterra_contracts.rpc.reply import Done, RpcError
from clusterra_contracts.rpc.slurm import (
    Cancel,
    GetJob,
    Job,
    JobDescription,
    JobPage,
    ListJobs,
    Operation,
    Submit,
    Submitted,
    Viewer,
)
from clusterra_lab.machine.process import Process, start, until
from clusterra_lab.parts.nats import NatsServer, nats_server
from clusterra_runtime.nats import bus, rpc, topology
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.direct import replay
from clusterra_runtime.nats.registry import put_binding
from clusterra_runtime.settings import ServiceSettings
from nats.aio.msg import Msg
from slurm_world import SlurmWorld

SCRIPT = "#!/bin/sh\ntrue\n"
ENVIRONMENT = ("PATH=/usr/bin:/bin",)


@dataclass
class ProxyWorld:
    """One cluster that one proxy process serves."""

    slurm: SlurmWorld
    ref: ClusterRef
    client: Client
    nats: NatsServer
    log: Path
    process: Process | None = None
    snapshots: list[QueueSnapshot] = field(default_factory=list)
    settings: Mapping[str, str] = field(default_factory=dict)
    """More of the proxy's environment."""

    async def call[T: Wire](self, operation: Operation, request: Message, result: type[T]) -> T:
        """Send a request and return the reply. Raises RpcFailed."""
        return await rpc.call(self.client, subjects.slurm(self.ref, operation), request, result, timeout_seconds=15)

    async def error_of(self, operation: Operation, request: Message) -> RpcError:
        """Send a request that must fail, and return its error."""
        try:
            answer = await self.call(operation, request, Wire)
        except rpc.RpcFailed as failed:
            return failed.error
        raise AssertionError(f"{operation} did not fail but answered {answer!r}")

    async def submit(self, user: SlurmUser, script: str = SCRIPT, key: str | None = None, **job: Any) -> Submitted:
        """Submit a job as a user."""
        return await self.call("submit", submission(user, script, key, **job), Submitted)

    async def cancel(self, user: SlurmUser, job_id: JobId, *, admin: bool = False) -> None:
        """Cancel a job as a user."""
        await self.call("cancel", Cancel(viewer=Viewer(user=user, admin=admin), job_id=job_id), Done)

    async def job(self, viewer: SlurmUser, job_id: JobId) -> Job:
        """Read a job as a user."""
        return await self.call("get", GetJob(viewer=Viewer(user=viewer), job_id=job_id), Job)

    async def jobs(self, viewer: SlurmUser, *, admin: bool = False, **filters: Any) -> JobPage:
        """Read one page of jobs."""
        return await self.call("list", ListJobs(viewer=Viewer(user=viewer, admin=admin), **filters), JobPage)

    async def wait_for_end(self, viewer: SlurmUser, job_id: JobId, *, seconds: float = 30) -> Job:
        """Wait until a job has ended, and return it."""

        async def ended_job() -> Job | None:
            job = await self.job(viewer, job_id)
            return job if job.ended_at else None

        return await until(ended_job, seconds=seconds, what=f"the end of job {job_id}", every=0.1)

    async def until_snapshot(self, matches: Callable[[QueueSnapshot], bool], *, seconds: float = 90) -> QueueSnapshot:
        """Wait for a snapshot that matches: the newest one or a later one."""
        begin = max(len(self.snapshots) - 1, 0)
        return await until(
            lambda: next((snapshot for snapshot in self.snapshots[begin:] if matches(snapshot)), None),
            seconds=seconds,
            what="a matching snapshot",
            every=0.002,
        )

    async def events(self, event_lines: str = ">") -> list[Event]:
        """All published events of the cluster, in order."""
        stored = [entry async for entry in replay(self.client, EVENT.name, subjects.events_of(self.ref, event_lines))]
        events = [decode(Event, entry.body, dict(entry.headers)) for entry in stored]
        assert [entry.headers[MESSAGE_ID] for entry in stored] == [event.id for event in events]
        return events

    async def event_lines(self, *entities: str) -> list[str]:
        """The published events of these entities, such as `42 job.running`, without those of people's actions."""
        events = (event for event in await self.events() if not event.kind.startswith("action."))
        return [f"{event.subject} {event.kind}" for event in events if event.subject in entities]

    async def start(self) -> None:
        """Start the proxy and wait until it watches the cluster."""
        began = now()
        self.process = await start(
            "proxy",
            [sys.executable, "-m", "clusterra_proxy"],
            log=self.log,
            env={**self.nats.environment(), "CLUSTERRA_SECRET_FOLDERS": '["/"]', **self.settings},
        )
        await until(
            lambda: any(
                snapshot.taken_at > began and None not in (snapshot.pending, snapshot.nodes)
                for snapshot in self.snapshots[-2:]
            ),
            seconds=30,
            what="the first snapshot",
            process=self.process,
        )

    async def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        await self.process.wait()


def find_pending(snapshot: QueueSnapshot, job_id: JobId) -> PendingJobs | None:
    """The group of a pending job in a snapshot."""
    return next((group for group in snapshot.pending or () if job_id in group.job_ids), None)


def find_running(snapshot: QueueSnapshot, job_id: JobId) -> RunningJob | None:
    """A running job in a snapshot."""
    return next((job for job in snapshot.running or () if job.job_id == job_id), None)


def find_node(snapshot: QueueSnapshot, name: str) -> NodeState | None:
    """A node in a snapshot."""
    return next((node for node in snapshot.nodes or () if node.name == name), None)


def submission(user: SlurmUser, script: str = SCRIPT, key: str | None = None, **job: Any) -> Submit:
    """A submit as the gateway sends it."""
    described = JobDescription.model_validate({"environment": ENVIRONMENT, **job})
    return Submit(user=user, email=f"{user.name}@example.org", script=script, job=described, idempotency_key=key)


@asynccontextmanager
async def proxy_world(
    slurm: SlurmWorld,
    directory: Path,
    name: str = "c1",
    *,
    slurmrestd_url: str | None = None,
    containers: bool = False,
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[ProxyWorld]:
    """A cluster on the given Slurm, with its own NATS and proxy, perhaps with something between it and slurmrestd."""
    binding = slurm.binding(name).model_copy(update={"containers": containers})
    if slurmrestd_url is not None:
        binding = binding.model_copy(update={"slurmrestd_url": slurmrestd_url})
    ref = ClusterRef(tenant="acme", cluster=name)
    async with nats_server(directory / "nats") as nats:
        client = await bus.connect(ServiceSettings(nats_url=nats.url), "test")
        world = ProxyWorld(slurm, ref, client, nats, directory / "proxy.log", settings=settings or {})

        async def collect(message: Msg) -> None:
            world.snapshots.append(decode(QueueSnapshot, message.data, message.headers))

        try:
            await topology.apply(client)
            await client.subscribe(subjects.job_pending(ref), cb=collect)
            await put_binding(client, ref, binding)
            await world.start()
            yield world
        finally:
            if world.process is not None:
                code = await world.process.stop(20)
                assert code in (0, -9), world.process.tail()
            await bus.close(client)
