"""The process substrate. Real processes stand in for slurmd: they listen on the port they are given, or fail."""

import asyncio
import json
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from clusterra_contracts.heartbeat import Worker, WorkerPhase
from clusterra_contracts.shapes import WorkerSpec
from clusterra_edge_agent.process import substrate as substrate_module
from clusterra_edge_agent.process.gentle_end import Grace
from clusterra_edge_agent.process.one_by_one import StartFailed
from clusterra_edge_agent.process.record import ProcessRecord
from clusterra_edge_agent.process.slurmd import Slurmd
from clusterra_edge_agent.process.substrate import ProcessSubstrate
from clusterra_edge_agent.substrate.state_files import StateUnreadable
from clusterra_lab.machine.ports import free_port, is_free
from clusterra_lab.machine.process import until
from pydantic import TypeAdapter

SPEC = WorkerSpec(cpus=1, memory_mib=512, features=("compute",))
LISTENER = """
import re, signal, socket, sys
port = int(re.search(r"Port=(\\d+)", " ".join(sys.argv)).group(1))
server = socket.create_server(("127.0.0.1", port))
signal.pause()
"""
LISTENS = (sys.executable, "-S", "-c", LISTENER)
SLEEPS = ("sh", "-c", "exec sleep 1000", "sh")
FAILS = ("sh", "-c", "echo no key; exit 3", "sh")
WITH_A_STEP = """
# As with a real slurmd, which is in a group of its own here: its step is in a session of its own and names no worker,
# there the job names its node, and has started something with a clean environment.
set -m
setsid env -u CLUSTERRA_WORKER sh -c 'SLURMD_NODENAME=$0 sh -c "env -u SLURMD_NODENAME sleep 1000; :"; :' $5 &
sleep 1000
:
"""
STEPS = ("sh", "-c", WITH_A_STEP, "sh")
DEAF = ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done", "sh")


def free_ports(count: int) -> range:
    """Returns a range of ports on which nobody listens at this moment."""
    while not all(map(is_free, ports := range(first := free_port(), first + count))):
        pass
    return ports


class Host:
    """A folder and ports for the substrates of one test, which start and stop as agents do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = free_ports(8)

    @asynccontextmanager
    async def substrate(
        self, launcher: tuple[str, ...], *, grace_seconds: float = 5.0
    ) -> AsyncIterator[ProcessSubstrate]:
        slurmd = Slurmd(launcher, "slurmd", None, "127.0.0.1:6817")
        spool = str(self.folder / "spool-{worker}")
        substrate = ProcessSubstrate(
            slurmd, self.folder, ports=self.ports, spool=spool, grace=Grace(slurmd_seconds=grace_seconds)
        )
        substrate.adopt()
        boots = asyncio.create_task(substrate.run())
        try:
            yield substrate
        finally:
            boots.cancel()
            substrate.close()

    def processes(self) -> list[psutil.Process]:
        """Returns all running processes that this test's substrates started."""
        ours = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("EDGE_TEST") == str(self.folder) and process.status() != psutil.STATUS_ZOMBIE:
                    ours.append(process)
            except psutil.Error:
                continue
        return ours

    async def kill_all(self) -> None:
        for process in self.processes():
            process.kill()
        await until(lambda: not self.processes(), seconds=90, what="the end of all workers")


@pytest.fixture
async def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    monkeypatch.setenv("EDGE_TEST", str(tmp_path))
    host = Host(tmp_path)
    yield host
    monkeypatch.delenv("EDGE_TEST")
    await host.kill_all()


async def until_workers(
    substrate: ProcessSubstrate, condition: Callable[[tuple[Worker, ...]], object]
) -> tuple[Worker, ...]:
    async def matching() -> tuple[Worker, ...] | None:
        workers = await substrate.workers()
        return (workers or (),) if condition(workers) else None  # type: ignore[return-value]

    await until(matching, seconds=90, what="the workers", every=0.01)
    return await substrate.workers()


def phases(*expected: WorkerPhase) -> Callable[[tuple[Worker, ...]], bool]:
    return lambda workers: sorted(worker.phase for worker in workers) == sorted(expected)


async def publish_all(substrate: ProcessSubstrate) -> list[str]:
    published = []
    while pending_events := substrate.pending_events():
        published.append(f"{pending_events[0].fact.kind} {pending_events[0].worker}")
        await substrate.mark_published(pending_events[0])
    return published


async def test_workers_boot_and_run_each_on_a_port_of_its_own(host: Host) -> None:
    async with host.substrate(LISTENS) as substrate:
        names = {await substrate.start("compute-xs", SPEC) for _ in range(3)}
        assert {worker.phase for worker in await substrate.workers()} == {"booting"}

        workers = await until_workers(substrate, phases("running", "running", "running"))
        assert {worker.name for worker in workers} == names
        assert all(name.startswith("compute-xs-") and len(name) == len("compute-xs-") + 5 for name in names)
        assert sorted(await publish_all(substrate)) == sorted(f"worker.started {name}" for name in names)


@pytest.mark.parametrize("look", ["listening", "running_steps"])
async def test_a_look_at_the_kernels_sockets_holds_nothing_else_up(
    host: Host, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    """Users may have so many sockets that the look takes seconds."""
    goes_on = asyncio.get_running_loop(), threading.Event()
    told: list[bool] = []

    def slow(*_: object) -> tuple[()]:
        goes_on[0].call_soon_threadsafe(goes_on[1].set)
        told.append(goes_on[1].wait(60))
        return ()

    monkeypatch.setattr(substrate_module, look, slow)
    async with host.substrate(SLEEPS) as substrate:
        await substrate.start("compute-xs", SPEC)
        (worker,) = await substrate.workers()
        await substrate.remove(worker.name)
        await until(lambda: told, seconds=90, what="a look", every=0.01)

    assert all(told)


async def test_a_removed_worker_is_terminated_and_leaves_nothing_behind(host: Host) -> None:
    async with host.substrate(LISTENS) as substrate:
        name = await substrate.start("compute-xs", SPEC)
        other = await substrate.start("compute-xs", SPEC)
        (host.folder / f"spool-{name}" / "deep").mkdir(parents=True)
        await until_workers(substrate, phases("running", "running"))
        await substrate.remove(name)
        await substrate.remove(name)

        workers = await until_workers(substrate, lambda workers: len(workers) == 1)

        assert workers[0].name == other
        assert await publish_all(substrate) == [
            f"worker.started {name}",
            f"worker.stopped {name}",
            f"worker.started {other}",
        ]
        assert not (host.folder / f"spool-{name}").exists()
        assert [file.name for file in (host.folder / "workers").iterdir()] == [f"{other}.json"]
        assert [file.name for file in (host.folder / "logs").iterdir()] == [f"{other}.log"]
        assert len(host.processes()) == 1


async def test_a_worker_that_ignores_sigterm_is_killed_after_the_grace_time(host: Host) -> None:
    async with host.substrate(DEAF, grace_seconds=0.2) as substrate:
        name = await substrate.start("compute-xs", SPEC)
        log = host.folder / "logs" / f"{name}.log"
        await until(lambda: "ready" in log.read_text(), seconds=90, what="the trap")
        await substrate.remove(name)

        assert [worker.phase for worker in await substrate.workers()] == ["terminating"]

        await until_workers(substrate, phases())
        assert await publish_all(substrate) == [f"worker.started {name}", f"worker.stopped {name}"]


async def test_a_worker_that_ends_by_itself_is_failed_and_its_shape_backs_off(host: Host) -> None:
    async with host.substrate(FAILS) as substrate:
        name = await substrate.start("compute-xs", SPEC)
        workers = await until_workers(substrate, phases("failed"))

        assert workers[0].reason == "it ended by itself with exit code 3"
        with pytest.raises(StartFailed, match="failed 1 times in a row") as failed:
            await substrate.start("compute-xs", SPEC)
        assert 0 < failed.value.retry_after_seconds <= 1
        assert await publish_all(substrate) == [f"worker.started {name}", f"worker.failed {name}"]
        assert await substrate.workers() == ()
        assert (host.folder / "logs" / "compute-xs.failed.log").read_text() == "no key\n"
        assert await substrate.start("general-xs", SPEC), "another shape has no back-off"


@pytest.mark.parametrize("victim", ["launcher", "slurmd"])
async def test_job_steps_do_not_outlive_their_worker(host: Host, victim: str) -> None:
    async with host.substrate(STEPS) as substrate:
        name = await substrate.start("compute-xs", SPEC)
        await substrate.start("compute-xs", SPEC)
        await until(lambda: len(host.processes()) == 10, seconds=90, what="launcher, slurmd, step and job of both")
        leader = next(record.process.pid for record in records(host) if record.name == name)
        session = [process for process in host.processes() if os.getsid(process.pid) == leader]
        next(process for process in session if (process.pid == leader) == (victim == "launcher")).kill()

        await until_workers(substrate, phases("failed", "booting"))

        assert len(host.processes()) == 5, "the processes of the other worker"


async def test_the_next_agent_adopts_running_workers_and_notices_their_end(host: Host) -> None:
    async with host.substrate(SLEEPS) as substrate:
        names = [await substrate.start("compute-xs", SPEC) for _ in range(3)]
        await publish_all(substrate)
        # A process that was just started has its environment only after its exec.
        await until(lambda: len(host.processes()) == 3, seconds=90, what="three workers")
        pids = {process.pid for process in host.processes()}

    assert {process.pid for process in host.processes()} == pids, "the workers outlive their substrate"

    async with host.substrate(SLEEPS) as substrate:
        assert sorted(worker.name for worker in await substrate.workers()) == sorted(names)
        assert substrate.pending_events() == ()

        host.processes()[0].kill()
        workers = await until_workers(substrate, phases("booting", "booting", "failed"))
        failed = next(worker for worker in workers if worker.phase == "failed")

        assert await publish_all(substrate) == [f"worker.failed {failed.name}"]


async def test_a_worker_that_ended_without_an_agent_is_reported_by_the_next(host: Host) -> None:
    async with host.substrate(SLEEPS) as substrate:
        name = await substrate.start("compute-xs", SPEC)
    await host.kill_all()
    async with host.substrate(SLEEPS) as substrate:
        await until_workers(substrate, phases("failed"))
    async with host.substrate(SLEEPS) as substrate:
        assert await publish_all(substrate) == [f"worker.started {name}", f"worker.failed {name}"]
    async with host.substrate(SLEEPS) as substrate:
        assert substrate.pending_events() == ()


async def test_a_removal_is_finished_by_the_next_agent(host: Host) -> None:
    async with host.substrate(DEAF, grace_seconds=60) as substrate:
        name = await substrate.start("compute-xs", SPEC)
        log = host.folder / "logs" / f"{name}.log"
        await until(lambda: "ready" in log.read_text(), seconds=90, what="the trap")
        await substrate.remove(name)
    async with host.substrate(DEAF, grace_seconds=0.1) as substrate:
        assert [worker.phase for worker in await substrate.workers()] == ["terminating"]
        await until_workers(substrate, phases())
        assert await publish_all(substrate) == [f"worker.started {name}", f"worker.stopped {name}"]


KILLED_AGENTS = """
import asyncio, os, random, signal, sys, time
from pathlib import Path
from clusterra_contracts.shapes import WorkerSpec
from clusterra_edge_agent.process.substrate import ProcessSubstrate
from clusterra_edge_agent.process.slurmd import Slurmd

async def agent(ready):
    folder, first = Path(sys.argv[1]), int(sys.argv[2])
    slurmd = Slurmd(("sh", "-c", "exec sleep 1000", "sh"), "slurmd", None, "127.0.0.1:6817")
    substrate = ProcessSubstrate(slurmd, folder, ports=range(first, first + 1000))
    substrate.adopt()
    os.write(ready, b"!")
    while True:
        await substrate.start("compute-xs", WorkerSpec(cpus=1, memory_mib=512))

chance = random.Random(3)
for _ in range(60):
    waiting, ready = os.pipe()
    if (pid := os.fork()) == 0:
        asyncio.run(agent(ready))
    os.read(waiting, 1)
    # A start takes 2 to 5 ms, so this is at any point of one of the first.
    time.sleep(chance.uniform(0, 0.02))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(waiting), os.close(ready)
"""


async def test_each_process_has_one_record_whenever_the_agent_is_killed(host: Host) -> None:
    command = [sys.executable, "-c", KILLED_AGENTS, str(host.folder), str(host.ports.start)]
    agents = await asyncio.create_subprocess_exec(*command)
    async with asyncio.timeout(60):
        assert await agents.wait() == 0
    async with host.substrate(SLEEPS) as substrate:
        before = len(records(host))
        await until(lambda: {p.pid for p in host.processes()} == on_record(host), seconds=90, what="one record each")
        phases = [worker.phase for worker in await substrate.workers()]

        assert before > 10
        # Others on this machine may listen on some of these many ports, so that a worker seems to serve already.
        assert phases.count("booting") + phases.count("running") == len(host.processes())
        assert phases.count("failed") < 20, "killed between the record and the release"

        ports = [record.port for record in records(host)]
        assert len(ports) == len(set(ports))


def all_records(host: Host) -> list[ProcessRecord]:
    files = (host.folder / "workers").glob("*.json")
    return [TypeAdapter(ProcessRecord).validate_json(file.read_text()) for file in files]


def records(host: Host) -> list[ProcessRecord]:
    return [record for record in all_records(host) if record.end is None]


def on_record(host: Host) -> set[int]:
    return {record.process.pid for record in records(host)}


async def test_occupied_ports_are_skipped(host: Host) -> None:
    with socket.create_server(("127.0.0.1", host.ports[2])):
        async with host.substrate(SLEEPS) as substrate:
            for _ in range(len(host.ports) - 1):
                await substrate.start("compute-xs", SPEC)
            with pytest.raises(StartFailed, match="CLUSTERRA_SLURMD_PORTS"):
                await substrate.start("compute-xs", SPEC)
        records = [file.read_text() for file in (host.folder / "workers").iterdir()]

        assert not any(f'"port":{host.ports[2]},' in record for record in records)


async def test_ports_are_assigned_in_turn_across_agents(host: Host) -> None:
    given = []
    for _ in range(len(host.ports)):
        async with host.substrate(FAILS) as substrate:
            await substrate.start("compute-xs", SPEC)
            await until_workers(substrate, phases("failed"))
            given += [record.port for record in all_records(host)]
            await publish_all(substrate)

    assert given == list(host.ports)


async def test_without_a_record_nothing_is_started(host: Host) -> None:
    async with host.substrate(SLEEPS) as substrate:
        (host.folder / "workers").rmdir()
        with pytest.raises(StartFailed, match=r"the record of .* cannot be written"):
            await substrate.start("compute-xs", SPEC)
        assert await substrate.workers() == ()
        assert host.processes() == []


async def test_an_unreadable_record_stops_the_agent(host: Host) -> None:
    (host.folder / "workers").mkdir()
    (host.folder / "workers" / "w.json").write_text('{"name": "w"}')
    with pytest.raises(StateUnreadable, match=r"w\.json"):
        async with host.substrate(SLEEPS):
            pass


async def test_stored_records_keep_the_field_names_of_earlier_versions(host: Host) -> None:
    async with host.substrate(SLEEPS) as substrate:
        name = await substrate.start("compute-xs", SPEC)
        await publish_all(substrate)
        record = json.loads((host.folder / "workers" / f"{name}.json").read_text())
        await substrate.remove(name)
        await until_workers(substrate, phases())
        await publish_all(substrate)
        port = json.loads((host.folder / "port.json").read_text())

    assert record["start_told"] is True
    assert port.keys() == {"port", "given_at"}
