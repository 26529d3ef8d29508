"""`lab up`, `status`, `logs` and `down` on a lab with one small service: real processes, real signals."""

import asyncio
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from clusterra_lab.cli import app
from clusterra_lab.machine.process import Process, ProcessDied, run, start, until
from clusterra_lab.stack.fleet import Command, SetupFailed, fleet, run_setup
from clusterra_lab.stack.home import Home, LabIsUp
from clusterra_lab.stack.ledger import Entry, Ledger
from clusterra_lab.stack.leftovers import processes
from typer.testing import CliRunner

HERE = Path(__file__).parent


def little_service(name: str, **environment: str) -> Command:
    return Command(name, "little_service", {"PYTHONPATH": str(HERE), **environment})


async def lab(directory: Path, *arguments: str) -> tuple[int, str]:
    """Run a `lab` command and return its exit code and its output."""
    argv = [*arguments, "--dir", str(directory)]
    # In a thread, because the command runs its own event loop.
    result = await asyncio.to_thread(CliRunner(env={"COLUMNS": "200"}).invoke, app, argv)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def little_lab(directory: Path) -> list[str]:
    return [sys.executable, str(HERE / "little_lab.py"), str(directory)]


async def bring_up(directory: Path) -> Process:
    up = await start("up", little_lab(directory), log=directory.with_suffix(".log"))
    await until(lambda: "up: " in up.tail(), seconds=90, what="the little lab", process=up)
    return up


@pytest.fixture(scope="module")
async def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared") / "one"


@pytest.fixture(scope="module")
async def up(directory: Path) -> AsyncIterator[Process]:
    """A lab that the tests share and do not change."""
    up = await bring_up(directory)
    yield up
    await up.stop(grace_seconds=20)


def worker_of(directory: Path) -> psutil.Process:
    found = re.findall(r"worker (\d+)", (directory / "logs" / "greeter.log").read_text())
    return psutil.Process(int(found[-1]))


def runs(process: psutil.Process) -> bool:
    """Whether the process runs; a zombie, left by an init process that does not reap, does not."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def listening(url: str) -> bool:
    host, _, port = url.rpartition("//")[2].partition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


async def test_status_in_json_has_the_processes_and_addresses_of_a_running_lab(up: Process, directory: Path) -> None:
    code, printed = await lab(directory, "status", "--json")

    assert code == 0
    status = json.loads(printed)
    assert (status["up"], status["pid"]) == (True, up.pid)
    (greeter,) = status["processes"]
    assert (greeter["name"], greeter["running"], greeter["ready"]) == ("greeter", True, True)
    assert psutil.Process(greeter["pid"]).ppid() == up.pid
    assert listening(status["addresses"]["greeter"])


@pytest.mark.usefixtures("up")
async def test_status_of_a_running_lab_shows_each_process(directory: Path) -> None:
    code, printed = await lab(directory, "status")

    assert code == 0
    assert re.search(r"greeter\s+\d+\s+ready", printed)


async def test_logs_of_a_running_lab(up: Process, directory: Path) -> None:
    code, printed = await lab(directory, "logs", "greeter")
    assert code == 0
    assert f"worker {worker_of(directory).pid}\nhello from red\n" in printed
    code, printed = await lab(directory, "logs", "nobody")
    assert code == 1
    assert "known: greeter" in printed


async def test_logs_follow_prints_new_lines_until_ctrl_c(up: Process, directory: Path, tmp_path: Path) -> None:
    argv = [str(Path(sys.executable).with_name("lab")), "logs", "greeter", "--follow", "--dir", str(directory)]
    following = await start("follow", argv, log=tmp_path / "follow.log")
    await until(lambda: "hello from red" in following.tail(), seconds=90, what="the log", process=following)

    with (directory / "logs" / "greeter.log").open("a") as log:
        log.write("one more line\n")
    await until(lambda: "one more line" in following.tail(), seconds=90, what="the new line", process=following)

    following.signal(signal.SIGINT)

    assert await following.wait() == 0
    assert "Traceback" not in following.tail()


async def test_a_second_lab_in_the_same_folder_does_not_start(up: Process, directory: Path, tmp_path: Path) -> None:
    second = await run("second", little_lab(directory), log=tmp_path / "second.log")
    assert second.exit_code == 1
    assert f"a lab is already running in {directory} (pid {up.pid})" in second.tail()
    assert "make down" in second.tail()


async def test_down_ends_all_processes_of_one_lab_and_none_of_another(
    up: Process, directory: Path, tmp_path: Path
) -> None:
    other = await bring_up(tmp_path / "two")
    worker = worker_of(tmp_path / "two")

    address = json.loads((await lab(tmp_path / "two", "status", "--json"))[1])["addresses"]["greeter"]

    assert listening(address)

    code, printed = await lab(tmp_path / "two", "down")

    assert code == 0
    assert f"lab up (pid {other.pid})" in printed
    assert await other.wait() == 0
    assert not listening(address)
    assert not worker.is_running(), "not even as a zombie"
    assert await lab(tmp_path / "two", "down") == (0, f"no lab was running in {tmp_path / 'two'}\n")
    assert (await lab(tmp_path / "two", "status"))[0] == 1
    assert (await lab(directory, "status"))[0] == 0
    assert up.alive


async def test_processes_of_a_killed_lab_are_ended_by_the_next_lab_or_by_down(tmp_path: Path) -> None:
    directory = tmp_path / "lab"
    first = await bring_up(directory)
    (greeter,) = Ledger(directory).entries()
    os.kill(greeter.pid, signal.SIGKILL)

    message = f"greeter (pid {greeter.pid}) has ended"
    await until(lambda: message in first.tail(), seconds=90, what="the message", process=first)

    code, printed = await lab(directory, "status")

    assert code == 1
    assert re.search(r"greeter\s+\d+\s+ended", printed)

    first_worker = worker_of(directory)
    first.kill()

    await first.wait()

    assert runs(first_worker)

    second = await bring_up(directory)

    assert not runs(first_worker)

    second_worker, (greeter,) = worker_of(directory), Ledger(directory).entries()

    assert runs(second_worker)

    second.kill()
    await second.wait()
    await until(lambda: not greeter.running, seconds=90, what="the end of the killed lab's child")
    assert runs(second_worker)

    code, printed = await lab(directory, "down")

    assert code == 0
    assert f"lab up (pid {second.pid}), which was killed" in printed
    assert f"sleep (pid {second_worker.pid})" in printed
    assert not runs(second_worker)
    assert processes(directory) == []


async def test_a_signal_during_the_start_ends_all_processes(tmp_path: Path) -> None:
    directory = tmp_path / "one"
    up = await start("up", little_lab(directory), log=tmp_path / "up.log")
    await until((directory / "processes.json").exists, seconds=90, what="the first process", process=up)

    up.signal(signal.SIGTERM)
    up.signal(signal.SIGTERM)

    assert await up.wait() == 0
    assert "up: " not in up.tail()
    assert processes(directory) == []


async def test_services_are_killed_and_started_independently(tmp_path: Path) -> None:
    home = Home(tmp_path / "lab")
    with home.locked(), home.ledger.open():
        async with fleet([little_service("one"), little_service("two")], home.logs) as services:
            before = {name: service.pid for name, service in services.items()}
            url = services["one"].health_url
            services["one"].kill()
            await services["one"].start()

            await services["one"].ready()

            assert services["one"].health_url == url
            assert services["one"].pid != before["one"]
            assert services["two"].pid == before["two"]
            assert await services["two"].stop() == 0

            await services["two"].restart()

            assert {entry.name: entry.pid for entry in home.ledger.entries()} == {
                name: service.pid for name, service in services.items()
            }
        assert processes(home.directory) == []


async def test_a_service_that_fails_to_start_is_reported_with_its_log_and_ends_the_others(tmp_path: Path) -> None:
    home = Home(tmp_path / "lab")
    commands = [little_service("good"), little_service("bad", FAIL="1")]
    with home.locked(), home.ledger.open():
        with pytest.raises(ProcessDied, match=r"(?s)bad ended with exit code 1 .*cannot open the door"):
            async with fleet(commands, home.logs):
                raise AssertionError
        assert processes(home.directory) == []


async def test_a_failed_setup_command_is_reported_with_its_log(tmp_path: Path) -> None:
    with pytest.raises(SetupFailed, match=r"(?s)the door ended with exit code 1.*cannot open"):
        await run_setup([little_service("the door", FAIL="1")], tmp_path)


async def test_down_does_not_end_another_process_that_reuses_a_recorded_pid(tmp_path: Path) -> None:
    bystander = await start("bystander", ["sleep", "60"], log=tmp_path / "log")
    home = Home(tmp_path / "lab")
    entry = Entry.of(bystander.pid, "was-ours", tmp_path / "log")

    (home.directory / "processes.json").write_text(
        json.dumps([entry.model_copy(update={"started": entry.started - 1}).model_dump(mode="json")])
    )

    assert await lab(home.directory, "down") == (0, f"no lab was running in {home.directory}\n")
    assert bystander.alive
    await bystander.stop()


async def test_the_lock_of_a_folder_ends_with_its_block(tmp_path: Path) -> None:
    home = Home(tmp_path / "lab")
    with home.locked():
        owner = home.owner()
        assert owner is not None
        assert owner.pid == os.getpid()
        with pytest.raises(LabIsUp, match=f"pid {os.getpid()}"), Home(tmp_path / "lab").locked():
            raise AssertionError

    assert home.owner() is None

    with home.locked():
        await asyncio.sleep(0)


def test_state_is_reused_only_after_an_orderly_end(tmp_path: Path) -> None:
    home = Home(tmp_path / "lab")
    with home.using_state() as started:
        (home.state / "part").write_text("first")
        started()
    with home.using_state():
        assert (home.state / "part").read_text() == "first"
    with home.using_state() as started:
        assert not (home.state / "part").exists(), "the second lab did not finish its start"
        assert (tmp_path / "lab" / "state-before" / "part").read_text() == "first"
        started()
