"""An agent process that can be restarted, and the central side's view of it. `sleep` processes stand in for slurmd."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from agent_process import AGENT, REF, USERS, shared_dir, start_agent, state_dir
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.permissions import Permissions
from clusterra_contracts.events import Event
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import now
from clusterra_contracts.scale import DesiredState, ShapeTarget
from clusterra_contracts.shapes import WorkerSpec
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import Process, until
from clusterra_lab.parts.nats import NatsServer, nats_server
from clusterra_runtime.nats import bus, direct, topology
from clusterra_runtime.nats.client import Client

SHAPE = "compute-xs"
SPEC = WorkerSpec(cpus=1, memory_mib=512, features=("compute",))
SLEEPS = ("sh", "-c", "exec sleep 1000", "sh")


@dataclass
class Edge:
    """One agent that can be restarted, and the central side's view of it."""

    folder: Path
    server: NatsServer
    centre: Client
    launcher: tuple[str, ...] = SLEEPS
    program: tuple[str, ...] = AGENT
    heartbeats: list[Heartbeat] = field(default_factory=list)
    agent: Process | None = None
    generation: int = 0
    first_port: int = field(default_factory=free_port)
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def shared_dir(self) -> Path:
        return shared_dir(self.folder)

    async def start(self) -> Process:
        environment = {
            "CLUSTERRA_WORKER_LAUNCHER": json.dumps(self.launcher),
            "CLUSTERRA_SLURMD_CONF_SERVER": "127.0.0.1:6817",
            "CLUSTERRA_SLURMD_FIRST_PORT": str(self.first_port),
            "CLUSTERRA_SCONTROL_PATH": "",
            **self.environment,
        }
        self.agent = await start_agent(self.server, self.folder, environment, program=self.program)
        return self.agent

    async def desire(
        self, replicas: int | None, *, victims: tuple[str, ...] = (), fence: int = 1, generation: int | None = None
    ) -> DesiredState:
        if generation is None:
            self.generation += 1
            generation = self.generation
        target = ShapeTarget(shape=SHAPE, worker=SPEC, replicas=replicas or 0, victims=victims)
        state = DesiredState(
            generation=generation,
            fence=fence,
            snapshot_generation=0,
            decided_at=now(),
            targets=None if replicas is None else (target,),
        )
        await bus.publish_durable(
            self.centre, subjects.scale_desired(REF), state, message_id=f"{self.folder}:{fence}:{generation}"
        )
        return state

    async def heartbeat(self, condition: Callable[[Heartbeat], object], *, seconds: float = 90.0) -> Heartbeat:
        """Waits for a heartbeat that fulfils the condition. The last received one counts too."""
        first = max(0, len(self.heartbeats) - 1)

        def matching() -> Heartbeat | None:
            return next((beat for beat in self.heartbeats[first:] if condition(beat)), None)

        return await until(matching, seconds=seconds, what="the heartbeat", every=0.005, process=self.agent)

    async def applied(self, state: DesiredState) -> Heartbeat:
        def has_applied(beat: Heartbeat) -> bool:
            return beat.applied is not None and (beat.applied.fence, beat.applied.generation) == state.order

        return await self.heartbeat(has_applied)

    async def worker_count(self, count: int) -> Heartbeat:
        return await self.heartbeat(lambda beat: beat.workers is not None and len(beat.workers) == count)

    def workers(self) -> dict[int, psutil.Process]:
        """Returns the running worker processes, as the kernel lists them, by pid."""
        found = {}
        for process in psutil.process_iter():
            try:
                if process.name() != "sleep" or process.status() == psutil.STATUS_ZOMBIE:
                    continue
                if process.environ().get("CLUSTERRA_STATE_DIR") == str(state_dir(self.folder)):
                    found[process.pid] = process
            except psutil.Error:
                continue
        return found

    async def running_workers(self, count: int) -> dict[int, psutil.Process]:
        """Waits until exactly this many workers run. A started process is one of them only after its exec."""
        return await until(
            lambda: found if len(found := self.workers()) == count else None,
            seconds=90,
            what=f"{count} worker processes",
            process=self.agent,
        )

    def records(self) -> dict[int, str]:
        """Returns the names of the workers that the agent has on record, by pid."""
        found = {}
        for file in (state_dir(self.folder) / "workers").glob("*.json"):
            with suppress(FileNotFoundError):
                record = json.loads(file.read_text())
                found[record["process"]["pid"]] = record["name"]
        return found

    async def events(self) -> list[tuple[str, str]]:
        found = []
        async with aclosing(direct.replay(self.centre, "EVENT", subjects.events_of(REF))) as stored:  # type: ignore[type-var]
            async for message in stored:
                event = Event.model_validate_json(message.body)
                found.append((event.kind, event.subject))
        return found

    async def dead_letters(self) -> list[bytes]:
        found = []
        async with aclosing(direct.replay(self.centre, "DLQ", "dlq.>")) as stored:  # type: ignore[type-var]
            async for message in stored:
                found.append(message.body)
        return found

    async def stop(self) -> None:
        if self.agent is not None:
            self.agent.kill()
            await self.agent.wait()
        for process in self.workers().values():
            with suppress(psutil.NoSuchProcess):
                process.kill()


@asynccontextmanager
async def running_edge(folder: Path, users: Mapping[str, Permissions] = USERS) -> AsyncIterator[Edge]:
    """Yields an edge with a NATS server of its own, where without `users` anybody may connect. No agent runs yet."""
    async with nats_server(folder / "nats", users=users) as server:
        centre = await bus.connect(server.settings("centre"), "centre")
        await topology.apply(centre)
        edge = Edge(folder, server, centre)

        async def record(_subject: subjects.Subject, beat: Heartbeat) -> None:
            edge.heartbeats.append(beat)

        await bus.subscribe(centre, subjects.heartbeat(REF), Heartbeat, record)
        try:
            yield edge
        finally:
            await edge.stop()
            await bus.close(centre)
