"""Scaler processes with a real NATS server and an emulator of DynamoDB."""

import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import psutil
import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import DLQ
from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.identity import ClusterRef, SlurmUser, now
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.slurm_nodes import DeleteNode, Drain, Undrain
from clusterra_contracts.rpc.why import ExplainJob, Explanation
from clusterra_contracts.scale import DesiredState
from clusterra_lab.machine.process import Process, start, until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.registry import put_binding
from clusterra_runtime.nats.rpc import RpcFailed, call
from fleet_examples import binding, group, node, running
from stand_ins import Neighbours, neighbours

TAKEOVER_SECONDS = 60
MAX_RESIDENT_BYTES = 110 * 1024 * 1024


@asynccontextmanager
async def scaler(environment: dict[str, str], directory: Path, name: str = "scaler") -> AsyncIterator[Process]:
    log = directory / f"{name}.log"
    process = await start(name, [sys.executable, "-m", "clusterra_scaler"], log=log, env=environment)
    try:
        yield process
    finally:
        await process.stop()


@pytest.fixture
async def cluster(client: Client, ref: ClusterRef) -> AsyncIterator[Neighbours]:
    await put_binding(client, ref, binding(idle_seconds=0.5, max_workers=20))
    async with neighbours(client, ref) as cluster:
        yield cluster


async def desired(
    cluster: Neighbours, what: str, check: Callable[[DesiredState], bool], seconds: float = 15
) -> DesiredState:
    async def found() -> DesiredState | None:
        state = await cluster.last_desired()
        return state if state is not None and check(state) else None

    return await until(found, seconds=seconds, what=what, every=0.02)


def replicas(state: DesiredState) -> dict[str, int]:
    return {target.shape: target.replicas for target in state.targets or ()}


def worker(name: str) -> Worker:
    return Worker(name=name, shape=name.rpartition("-")[0], phase="running", started_at=now())


async def test_workers_are_bought_for_jobs_and_removed_after_them(
    environment: dict[str, str], cluster: Neighbours, tmp_path: Path
) -> None:
    async with scaler(environment, tmp_path) as process:
        cluster.pending = (group("1", "2", "3", cpus=2),)
        await cluster.publish_snapshot()
        await cluster.publish_heartbeat()
        bought = await desired(cluster, "workers", lambda state: replicas(state) == {"compute-xs": 3})
        assert bought.fence > 0

        async def event_published() -> bool:
            event = await cluster.last_event()
            return event is not None and event.data.model_dump()["generation"] == bought.generation

        await until(event_published, seconds=90, what="the event of the decision")

        # Repeating the same snapshot and heartbeat gives no new generation.
        for _ in range(3):
            await cluster.publish_snapshot()
            await cluster.publish_heartbeat()
        assert await cluster.last_desired() == bought
        names = ["compute-xs-a", "compute-xs-b", "compute-xs-c"]
        cluster.pending = ()
        cluster.running = tuple(running(str(n), name, cpus=2) for n, name in enumerate(names, start=1))
        cluster.nodes = {name: node(name, used=2, idle_for=None) for name in names}

        async def kept() -> bool:
            # If the snapshot arrives before the heartbeat, the ordered workers seem superfluous for a moment.
            await cluster.publish_heartbeat(*(worker(name) for name in names))
            await cluster.publish_snapshot()
            state = await cluster.last_desired()
            return state is not None and replicas(state) == {"compute-xs": 3} and not (state.targets or ())[0].victims

        await until(kept, seconds=90, what="three busy workers", every=0.2)

        # Two jobs end: their workers are drained, observed idle, named as victims and forgotten. The third runs on.
        cluster.running = cluster.running[:1]
        for name in names[1:]:
            cluster.nodes[name] = node(name, idle_for=None)

        async def victims_named() -> bool:
            await cluster.publish_snapshot()
            state = await cluster.last_desired()
            return state is not None and any(set(target.victims) == set(names[1:]) for target in state.targets or ())

        await until(victims_named, seconds=90, what="two victims", every=0.2)
        assert replicas(await desired(cluster, "one worker", lambda state: True)) == {"compute-xs": 1}
        drained = {request.node for request in cluster.requests if isinstance(request, Drain)}
        assert drained == set(names[1:])

        await cluster.publish_heartbeat(worker(names[0]))

        async def forgotten() -> bool:
            await cluster.publish_snapshot()
            await cluster.publish_heartbeat(worker(names[0]))
            state = await cluster.last_desired()
            return state is not None and not any(target.victims for target in state.targets or ())

        await until(forgotten, seconds=90, what="the victims forgotten", every=0.2)
        deleted = {request.node for request in cluster.requests if isinstance(request, DeleteNode)}
        assert deleted == set(names[1:])
        assert not [request for request in cluster.requests if isinstance(request, Undrain)]
        generations = [state.generation for state in cluster.desired]
        assert generations == sorted(generations)
        assert psutil.Process(process.pid).memory_info().rss < MAX_RESIDENT_BYTES

        process.signal(signal.SIGTERM)
        assert await process.wait() == 0


async def test_the_other_replica_takes_over_when_one_is_killed(
    environment: dict[str, str], cluster: Neighbours, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        replicas_by_name = {
            name: await stack.enter_async_context(scaler(environment, tmp_path, name)) for name in ("one", "two")
        }
        shard = subjects.job_shard(cluster.ref)

        def holders() -> list[str]:
            return [name for name in replicas_by_name if _holds(tmp_path / f"{name}.log", shard)]

        async def shared() -> bool:
            counts = [sum(_holds(tmp_path / f"{name}.log", number) for number in range(8)) for name in replicas_by_name]
            return counts == [4, 4] and len(holders()) == 1

        await until(shared, seconds=90, what="equal shares of the shards", every=0.1)
        cluster.pending = (group("1"),)
        await cluster.publish_snapshot()
        before = await desired(cluster, "a worker", lambda state: replicas(state) == {"compute-xs": 1})

        (holder,) = holders()
        replicas_by_name[holder].kill()
        cluster.pending = (group("1", "2", "3", cpus=2),)
        await cluster.publish_snapshot()
        after = await desired(
            cluster, "a decision of the other", lambda state: replicas(state) == {"compute-xs": 3}, TAKEOVER_SECONDS
        )
        assert after.fence > before.fence
        assert after.generation > before.generation

        async def explained() -> bool:
            request = ExplainJob(viewer=Viewer(user=SlurmUser(name="ada", uid=20001, gid=20001)), job_id="3")
            try:
                answer = await call(cluster.client, subjects.scaler(cluster.ref, "why"), request, Explanation)
            except RpcFailed as failed:
                # The desired state is published a moment before the decision can be explained.
                if failed.error.kind == "unavailable":
                    return False
                raise
            return answer.generation >= after.generation and answer.text.endswith(
                "have been ordered but have not started yet."
            )

        await until(explained, seconds=90, what="the explanation of the other")
        # The outbox may send a message twice. But no generation was decided by two replicas, or after a later one.
        orders = [state.order for state in cluster.desired]
        assert orders == sorted(orders)
        assert len({generation for _, generation in orders}) == len(set(orders))


def _holds(log: Path, shard: int) -> bool:
    """Whether the last event of a shard in the log is that its lease was acquired."""
    held = False
    for line in log.read_text().splitlines():
        record = json.loads(line) if line.startswith("{") else {}
        if record.get("shard") == shard and record.get("event") in ("lease_acquired", "lease_ended"):
            held = record["event"] == "lease_acquired"
    return held


async def test_invalid_messages_become_dead_letters_and_change_nothing(
    environment: dict[str, str], cluster: Neighbours, client: Client, tmp_path: Path
) -> None:
    js = client.jetstream()
    async with scaler(environment, tmp_path):
        cluster.pending = (group("1"),)
        await cluster.publish_snapshot()
        before = await desired(cluster, "a worker", lambda state: replicas(state) == {"compute-xs": 1})
        buried = (await js.stream_info(DLQ.name)).state.messages
        garbage = (b"", b"\xff\x00", b"{}", b"[]", b'{"generation": 0}')
        for body in garbage:
            await js.publish(subjects.job_pending(cluster.ref), body)
        await client.publish(subjects.heartbeat(cluster.ref), b'{"workers": 7}')

        async def dead_letters_written() -> bool:
            # The stream keeps only the last snapshot of a cluster: earlier ones may be gone before they are read.
            return (await js.stream_info(DLQ.name)).state.messages >= buried + 2

        await until(dead_letters_written, seconds=90, what="the dead letters", every=0.1)
        assert await cluster.last_desired() == before
        cluster.pending = (group("1", "2", "3", cpus=2),)
        await cluster.publish_snapshot()
        await desired(cluster, "more workers", lambda state: replicas(state) == {"compute-xs": 3})


async def test_decisions_continue_after_nats_was_killed_and_restarted(
    environment: dict[str, str], cluster: Neighbours, nats: NatsServer, tmp_path: Path
) -> None:
    async with scaler(environment, tmp_path) as process:
        cluster.pending = (group("1"),)
        await cluster.publish_snapshot()
        await desired(cluster, "a worker", lambda state: replicas(state) == {"compute-xs": 1})

        await nats.kill()
        await nats.restart()

        cluster.pending = (group("1", "2", "3", cpus=2),)
        await cluster.publish_snapshot()
        await desired(cluster, "more workers", lambda state: replicas(state) == {"compute-xs": 3}, TAKEOVER_SECONDS)
        assert process.pid
