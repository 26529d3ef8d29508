"""The agent as a process, with a real NATS server and its own permissions there; real processes stand in for slurmd."""

import asyncio
import json
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from clusterra_contracts import permissions, subjects
from clusterra_contracts.edge_rpc import LogChunk, ReadLog
from clusterra_contracts.events import Event
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.scale import DesiredState, ShapeTarget
from clusterra_contracts.shapes import WorkerSpec
from clusterra_lab.nats import NatsServer, nats_server
from clusterra_lab.process import Process, free_port, start, until
from clusterra_runtime import bus, direct, rpc, topology
from clusterra_runtime.client import Client
from clusterra_runtime.settings import ServiceSettings

REF = ClusterRef(tenant="acme", cluster="c1")
SHAPE = "compute-xs"
SPEC = WorkerSpec(cpus=1, memory_mib=512, features=("compute",))
SLEEPS = ("sh", "-c", "exec sleep 1000", "sh")
FAILS = ("sh", "-c", "exit 3", "sh")
USERS = {"edge": permissions.edge_agent(REF), "centre": permissions.control_plane()}


@dataclass
class Edge:
    """One agent that comes and goes, and the centre's view of it."""

    folder: Path
    server: NatsServer
    centre: Client
    launcher: tuple[str, ...] = SLEEPS
    heartbeats: list[Heartbeat] = field(default_factory=list)
    agent: Process | None = None
    generation: int = 0
    first_port: int = field(default_factory=free_port)

    @property
    def shared_dir(self) -> Path:
        folder = self.folder / "shared"
        folder.mkdir(exist_ok=True)
        return folder

    async def start(self) -> Process:
        environment = {
            **self.server.environment("edge"),
            "CLUSTERRA_TENANT": REF.tenant,
            "CLUSTERRA_CLUSTER": REF.cluster,
            "CLUSTERRA_SHARED_DIR": str(self.shared_dir),
            "CLUSTERRA_STATE_DIR": str(self.folder / "state"),
            "CLUSTERRA_WORKER_LAUNCHER": json.dumps(self.launcher),
            "CLUSTERRA_SLURMD_CONF_SERVER": "127.0.0.1:6817",
            "CLUSTERRA_SLURMD_FIRST_PORT": str(self.first_port),
        }
        command = [sys.executable, "-m", "clusterra_edge_agent"]
        self.agent = await start("edge-agent", command, log=self.folder / "agent.log", env=environment)
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

    async def heartbeat(self, condition: Callable[[Heartbeat], object], *, seconds: float = 15.0) -> Heartbeat:
        """The first heartbeat from now on, the last known one included, for which the condition holds."""
        first = max(0, len(self.heartbeats) - 1)

        def look() -> Heartbeat | None:
            return next((beat for beat in self.heartbeats[first:] if condition(beat)), None)

        return await until(look, seconds=seconds, what="the heartbeat", every=0.005, process=self.agent)

    async def applied(self, state: DesiredState) -> Heartbeat:
        def told(beat: Heartbeat) -> bool:
            return beat.applied is not None and (beat.applied.fence, beat.applied.generation) == state.order

        return await self.heartbeat(told)

    async def has(self, count: int) -> Heartbeat:
        return await self.heartbeat(lambda beat: beat.workers is not None and len(beat.workers) == count)

    def workers(self) -> dict[int, psutil.Process]:
        """The worker processes that run, as the kernel knows them."""
        found = {}
        for process in psutil.process_iter():
            try:
                mine = process.environ().get("CLUSTERRA_STATE_DIR") == str(self.folder / "state")
                if mine and process.name() == "sleep" and process.status() != psutil.STATUS_ZOMBIE:
                    found[process.pid] = process
            except psutil.Error:
                continue
        return found

    def records(self) -> dict[int, str]:
        """The workers that the agent has on record: pid and name."""
        found = {}
        for file in (self.folder / "state" / "workers").glob("*.json"):
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
            process.kill()


@pytest.fixture
async def edge(tmp_path: Path) -> AsyncIterator[Edge]:
    async with nats_server(tmp_path / "nats", users=USERS) as server:
        settings = ServiceSettings(
            nats_url=server.url, nats_user="centre", nats_password_file=server.passwords["centre"]
        )
        centre = await bus.connect(settings, "centre")
        await topology.apply(centre)
        edge = Edge(tmp_path, server, centre)

        async def note(_about: subjects.Subject, beat: Heartbeat) -> None:
            edge.heartbeats.append(beat)

        await bus.subscribe(centre, subjects.heartbeat(REF), Heartbeat, note)
        yield edge
        await edge.stop()
        await bus.close(centre)


async def test_workers_become_as_desired_and_everything_is_told_once(edge: Edge) -> None:
    await edge.start()
    up = await edge.desire(3)
    beat = await edge.applied(up)
    assert beat.workers is not None
    assert len(beat.workers) == 3
    names = {worker.name for worker in beat.workers}
    assert set(edge.records().values()) == names
    await until(lambda: len(edge.workers()) == 3, seconds=5, what="three processes")
    assert edge.workers().keys() == edge.records().keys()

    victim = min(names)
    down = await edge.desire(2, victims=(victim,))
    await edge.applied(down)
    left = await edge.has(2)
    assert {worker.name for worker in left.workers or ()} == names - {victim}
    await until(lambda: len(edge.records()) == 2, seconds=5, what="the victim forgotten")
    assert edge.workers().keys() == edge.records().keys()
    assert sorted(await edge.events()) == sorted(
        [("worker.started", name) for name in names] + [("worker.stopped", victim)]
    )
    generations = [beat.generation for beat in edge.heartbeats]
    assert generations == sorted(set(generations))


async def test_only_victims_are_ever_removed(edge: Edge) -> None:
    await edge.start()
    await edge.applied(await edge.desire(3))
    for replicas in (0, None, 1):
        await edge.applied(await edge.desire(replicas, victims=("compute-xs-aaaaa", "general-xs-aaaaa")))
    assert len(edge.workers()) == 3
    assert edge.workers().keys() == edge.records().keys()


async def test_older_states_are_ignored_also_after_a_restart(edge: Edge) -> None:
    agent = await edge.start()
    await edge.applied(await edge.desire(1, fence=7, generation=10))
    await edge.desire(5, fence=6, generation=11)
    await edge.desire(5, fence=7, generation=9)
    marker = await edge.desire(2, fence=7, generation=12)
    beat = await edge.applied(marker)
    assert len(beat.workers or ()) == 2
    agent.kill()
    await agent.wait()
    await edge.desire(5, fence=6, generation=99)
    agent = await edge.start()
    await until(
        lambda: "older_desired_state_ignored" in agent.tail(50), seconds=15, what="the old state", process=agent
    )
    await edge.heartbeat(lambda beat: beat.applied is None and len(beat.workers or ()) == 2)
    await edge.applied(await edge.desire(3, fence=8, generation=1))
    assert len(edge.workers()) == 3


async def test_garbage_goes_to_the_dead_letters_and_changes_nothing(edge: Edge) -> None:
    await edge.start()
    await edge.applied(await edge.desire(2))
    garbage = [
        b"",
        b"{",
        b"null",
        b'{"generation": 0}',
        b"\xff\xfe",
        b'{"targets": [{"shape": "../etc"}]}',
        b"[" * 5000,
    ]
    for body in garbage:
        await edge.centre.publish(subjects.scale_desired(REF), body)
    answer = await edge.centre.request(
        subjects.edge(REF, "log"), b'{"job_id": "../../etc/passwd", "uid": 0}', timeout=5
    )
    assert json.loads(answer.data)["error"]["kind"] == "invalid"

    async def all_kept() -> bool:
        return set(garbage) <= set(await edge.dead_letters())

    await until(all_kept, seconds=15, what="all garbage in the dead letters", process=edge.agent)
    assert len(edge.workers()) == 2
    await edge.applied(await edge.desire(3))


async def test_workers_outlive_the_agent_and_the_next_one_adopts_them(edge: Edge) -> None:
    agent = await edge.start()
    state = await edge.desire(3)
    await edge.applied(state)
    before = set(edge.workers())
    assert await agent.stop(grace_seconds=15) == 0
    assert set(edge.workers()) == before
    edge.heartbeats.clear()
    await edge.start()
    beat = await edge.applied(state)
    assert len(beat.workers or ()) == 3
    assert set(edge.workers()) == before == set(edge.records())


async def test_without_nats_nothing_changes_and_afterwards_all_is_made_good(edge: Edge) -> None:
    agent = await edge.start()
    await edge.applied(await edge.desire(3))
    before = edge.workers()
    await edge.server.kill()
    await until(lambda: "nats_disconnected" in agent.tail(50), seconds=10, what="the loss", process=agent)
    victim = min(before)
    before[victim].kill()
    await until(lambda: "worker_ended" in agent.tail(50), seconds=10, what="the end seen", process=agent)
    assert set(edge.workers()) == set(before) - {victim}, "nothing is started without an answer"
    await edge.server.restart()
    await until(lambda: len(edge.workers()) == 3, seconds=30, what="the replacement", process=agent)
    await edge.applied(await edge.desire(4))
    kinds = [kind for kind, _ in await edge.events()]
    assert kinds.count("worker.failed") == 1


async def test_a_new_state_that_was_published_while_nobody_listened_is_found(edge: Edge) -> None:
    state = await edge.desire(2)
    await edge.start()
    await edge.applied(state)
    assert len(edge.workers()) == 2


async def test_a_crash_loop_is_slowed_down_and_each_failure_told(edge: Edge) -> None:
    edge.launcher = FAILS
    await edge.start()
    started = time.monotonic()
    await edge.desire(1)

    async def failures() -> list[str] | None:
        failed = [name for kind, name in await edge.events() if kind == "worker.failed"]
        return failed if len(failed) >= 3 else None

    failed = await until(failures, seconds=20, what="three failures", process=edge.agent)
    assert len(failed) == len(set(failed)) == 3
    assert time.monotonic() - started >= 3, "1 s after the first, 2 s after the second"


async def test_job_output_is_served_and_followed(edge: Edge) -> None:
    await edge.start()
    await edge.applied(await edge.desire(0))
    output = edge.shared_dir / "job_42.out"
    output.write_bytes(b"first\n")
    uid = output.stat().st_uid
    log = subjects.edge(REF, "log")
    chunk = await rpc.call(edge.centre, log, ReadLog(job_id="42", uid=uid), LogChunk)
    assert (chunk.data, chunk.size) == (b"first\n", 6)
    following = asyncio.create_task(
        rpc.call(
            edge.centre, log, ReadLog(job_id="42", uid=uid, offset=6, wait_seconds=20), LogChunk, timeout_seconds=25
        )
    )
    with output.open("ab") as file:
        file.write(b"second\n")
    assert (await following).data == b"second\n"
    with pytest.raises(rpc.RpcFailed) as failed:
        await rpc.call(edge.centre, log, ReadLog(job_id="42", uid=uid + 1), LogChunk)
    assert failed.value.error.kind == "not_found"


async def test_a_stop_answers_those_who_wait_and_does_not_wait_for_them(edge: Edge) -> None:
    agent = await edge.start()
    await edge.applied(await edge.desire(0))
    output = edge.shared_dir / "job_42.out"
    output.touch()
    request = ReadLog(job_id="42", uid=output.stat().st_uid, wait_seconds=30)
    log = subjects.edge(REF, "log")
    waiting = asyncio.create_task(rpc.call(edge.centre, log, request, LogChunk, timeout_seconds=40))
    await rpc.call(edge.centre, log, request.model_copy(update={"wait_seconds": 0.0}), LogChunk)
    assert await agent.stop(grace_seconds=10) == 0
    assert (await waiting).data == b""


async def test_an_agent_that_is_killed_at_any_moment_leaves_no_orphan_and_starts_nothing_twice(edge: Edge) -> None:
    chance = random.Random(20)
    replicas = 0
    for _ in range(4):
        edge.heartbeats.clear()
        agent = await edge.start()
        await edge.heartbeat(lambda beat: beat.workers is not None)
        replicas += chance.randint(1, 6)
        await edge.desire(replicas)
        # Somewhere between the arrival of the message and the start of the last worker, about 2 ms each.
        await asyncio.sleep(chance.uniform(0, 0.015))
        agent.kill()
        assert await agent.wait() == -signal.SIGKILL
    await edge.start()
    beat = await edge.applied(await edge.desire(replicas))
    assert {worker.name for worker in beat.workers or () if worker.phase != "failed"} <= set(edge.records().values())
    await until(lambda: len(edge.workers()) == len(edge.records()) == replicas, seconds=10, what="one each")
    assert edge.workers().keys() == edge.records().keys()

    victims = tuple(sorted(edge.records().values()))
    await edge.applied(await edge.desire(0, victims=victims))
    await until(lambda: not edge.workers() and not edge.records(), seconds=15, what="none left")
    told = await edge.events()
    assert len(told) == len(set(told))
    assert {name for kind, name in told if kind == "worker.stopped"} == set(victims)
