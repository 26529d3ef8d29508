"""Real processes that outlive the process that started them."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from clusterra_edge_agent.process.worker_process import ProcessIdentity, WorkerProcess
from clusterra_lab.machine.process import until

SLEEP = ["sleep", "1000"]


def held(argv: list[str], output: Path) -> WorkerProcess:
    return WorkerProcess.start_held(argv, output, os.environ)


def running(pid: int) -> bool:
    """Whether the process runs. A zombie has ended, even if nobody reaps it."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def ended(process: WorkerProcess) -> int | None:
    exited = asyncio.Event()
    process.on_exit(exited.set)
    async with asyncio.timeout(90):
        await exited.wait()
    code = process.reap()
    process.close()
    return code


async def test_a_held_process_runs_nothing_before_its_release(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    process = held(["sh", "-c", f"echo ran; touch {mark}; exit 7"], tmp_path / "log")
    pid = process.identity.pid

    assert psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    assert os.getsid(pid) == pid
    assert not mark.exists()

    process.release()
    assert await ended(process) == 7
    assert mark.exists()
    assert (tmp_path / "log").read_text() == "ran\n"


async def test_a_held_process_exits_without_running_its_program_when_its_starter_ends(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    process = held(["touch", str(mark)], tmp_path / "log")
    pid = process.identity.pid
    process.close()
    await until(lambda: not running(pid), seconds=90, what="the end of the held process")

    process.reap()

    assert not mark.exists()


async def test_a_released_process_outlives_its_killed_starter_and_is_found_again(tmp_path: Path) -> None:
    starter = f"""
import os, signal
from clusterra_edge_agent.process.worker_process import WorkerProcess
process = WorkerProcess.start_held({SLEEP!r}, {str(tmp_path / "log")!r}, os.environ)
process.release()
print(process.identity.model_dump_json(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", starter, stdout=asyncio.subprocess.PIPE)
    out, _ = await child.communicate()

    assert child.returncode == -signal.SIGKILL

    identity = ProcessIdentity.model_validate_json(out)
    found = WorkerProcess.find(identity)
    assert found is not None

    await until(lambda: psutil.Process(identity.pid).name() == "sleep", seconds=90, what="the program")
    found.signal(signal.SIGTERM)
    # The exit code of another parent's process is unknown. But this process may be ours if it adopts orphans.
    assert await ended(found) in (None, -signal.SIGTERM)
    assert WorkerProcess.find(identity) is None


async def test_another_process_with_the_same_pid_is_not_found(tmp_path: Path) -> None:
    process = held(SLEEP, tmp_path / "log")
    process.release()
    identity = process.identity
    try:
        for other in ({"start_ticks": identity.start_ticks - 1}, {"boot_id": "another boot"}, {"pid": 2**22 - 1}):
            assert WorkerProcess.find(identity.model_copy(update=other)) is None
    finally:
        process.signal(signal.SIGKILL)
        assert await ended(process) == -signal.SIGKILL


async def test_a_signal_reaches_the_program_behind_a_launcher_that_waits(tmp_path: Path) -> None:
    program = "trap 'echo told; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    launcher = ["sh", "-c", 'trap : TERM; sh -c "$1" & wait; wait', "launcher", program]
    process = held(launcher, tmp_path / "log")
    process.release()
    await until(lambda: "ready" in (tmp_path / "log").read_text(), seconds=90, what="the trap")
    process.signal(signal.SIGTERM)

    await ended(process)

    assert "told" in (tmp_path / "log").read_text()


async def test_a_process_killed_while_held_reports_its_exit(tmp_path: Path) -> None:
    process = held(SLEEP, tmp_path / "log")
    os.kill(process.identity.pid, signal.SIGKILL)
    await until(lambda: not running(process.identity.pid), seconds=90, what="its removal")
    process.release()
    assert await ended(process) == -signal.SIGKILL


async def test_an_unwritable_output_raises_and_leaves_no_process(tmp_path: Path) -> None:
    before = {child.pid for child in psutil.Process().children()}
    with pytest.raises(FileNotFoundError):
        held(SLEEP, tmp_path / "missing" / "log")
    assert {child.pid for child in psutil.Process().children()} == before


async def test_a_program_that_does_not_exist_ends_at_once(tmp_path: Path) -> None:
    process = held(["/does/not/exist"], tmp_path / "log")
    process.release()
    assert await ended(process) == 127
    assert "/does/not/exist" in (tmp_path / "log").read_text()
