"""Processes of the lab, tested with real ones."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from clusterra_lab.machine.process import Process, ProcessDied, Recorder, recorded_by, start, until

SLEEP = ["sleep", "60"]


def gone(pid: int) -> bool:
    """Whether the process has ended; an orphan may stay a zombie if the init process does not reap."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_output_is_appended_to_the_log_and_input_is_empty(tmp_path: Path) -> None:
    log = tmp_path / "deep" / "cat.log"
    for _ in range(2):
        process = await start("cat", ["sh", "-c", "cat; echo out; echo err >&2"], log=log)
        assert await process.wait() == 0
        assert process.tail() == "out\nerr"
    assert log.read_text() == "out\nerr\n" * 2


async def test_a_process_leads_a_session_with_its_environment_and_folder(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = await start(
        "env", ["sh", "-c", "echo $COLOUR $PWD; sleep 60"], log=log, env={"COLOUR": "red"}, cwd=tmp_path
    )
    await until(lambda: log.read_text(), seconds=90, what="output", process=process)
    assert os.getsid(process.pid) == process.pid
    assert process.tail() == f"red {tmp_path}"
    await process.stop()


async def test_a_process_dies_with_its_killed_parent(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    parent_program = f"""
import asyncio, os, pathlib
from clusterra_lab.machine.process import start
async def main():
    child = await start("child", ["sleep", "60"], log=pathlib.Path({str(tmp_path / "child.log")!r}))
    part = pathlib.Path({str(pid_file)!r} + ".part")
    part.write_text(str(child.pid))
    part.rename({str(pid_file)!r})
    await asyncio.sleep(60)
asyncio.run(main())
"""

    parent = await start("parent", [sys.executable, "-c", parent_program], log=tmp_path / "parent.log")
    await until(pid_file.exists, seconds=90, what="the child's pid", process=parent)

    child = int(pid_file.read_text())
    await until(lambda: psutil.Process(child).name() == "sleep", seconds=90, what="the child")

    parent.kill()

    assert await parent.wait() == -signal.SIGKILL
    await until(lambda: gone(child), seconds=90, what="the end of the child")


async def test_stop_sends_sigterm_and_sigkill_after_the_grace_time(tmp_path: Path) -> None:
    polite = await start("polite", SLEEP, log=tmp_path / "polite.log")

    assert await polite.stop() == -signal.SIGTERM
    assert await polite.stop() == -signal.SIGTERM

    log = tmp_path / "deaf.log"
    deaf = await start("deaf", ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"], log=log)
    await until(lambda: "ready" in log.read_text(), seconds=90, what="the trap", process=deaf)
    assert await deaf.stop(grace_seconds=0.2) == -signal.SIGKILL
    assert not deaf.alive

    deaf.kill()


async def test_several_tasks_can_wait_for_a_process_and_one_can_time_out(tmp_path: Path) -> None:
    process = await start("sleep", SLEEP, log=tmp_path / "log")

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(process.wait(), 0.05)

    waiters = [asyncio.create_task(process.wait()) for _ in range(3)]
    await until(lambda: process.alive, seconds=90, what="it to run")

    process.kill()

    assert await asyncio.gather(*waiters) == [-signal.SIGKILL] * 3


async def test_again_starts_the_same_command(tmp_path: Path) -> None:
    first = await start("sleep", SLEEP, log=tmp_path / "log", env={"COLOUR": "red"})

    with pytest.raises(RuntimeError, match="still runs"):
        await first.again()

    await first.stop()
    second = await first.again()

    assert second.pid != first.pid
    await until(lambda: psutil.Process(second.pid).name() == "sleep", seconds=90, what="the program")
    assert psutil.Process(second.pid).environ()["COLOUR"] == "red"
    await second.stop()


async def test_a_recorder_records_each_start_and_adds_its_environment(tmp_path: Path) -> None:
    recorded: list[Process] = []
    with recorded_by(Recorder(recorded.append, {"MARK": "lab-1"})):
        inside = await start("inside", SLEEP, log=tmp_path / "inside.log")
    outside = await start("outside", SLEEP, log=tmp_path / "outside.log")
    await inside.stop()

    second = await inside.again()

    assert [process.pid for process in recorded] == [inside.pid, second.pid]
    await until(lambda: psutil.Process(second.pid).name() == "sleep", seconds=90, what="the program")
    await until(lambda: psutil.Process(outside.pid).name() == "sleep", seconds=90, what="the program")
    assert psutil.Process(second.pid).environ()["MARK"] == "lab-1"
    assert "MARK" not in psutil.Process(outside.pid).environ()
    await second.stop()
    await outside.stop()


async def test_until_returns_the_first_truthy_result() -> None:
    answers = iter([None, 0, "", "done", "late"])
    assert await until(lambda: next(answers), seconds=90, what="an answer", every=0) == "done"

    async def soon() -> int | None:
        return 7

    assert await until(soon, seconds=90, what="an answer") == 7


async def test_a_timeout_of_until_names_what_it_waited_for() -> None:
    with pytest.raises(TimeoutError, match=r"a green light: not within 0\.05 s"):
        await until(lambda: False, seconds=0.05, what="a green light")
    with pytest.raises(TimeoutError, match="a hanging answer"):
        await until(asyncio.Event().wait, seconds=0.05, what="a hanging answer")


async def test_until_passes_on_errors_of_the_condition() -> None:
    async def fail() -> bool:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await until(fail, seconds=90, what="nothing")


async def test_until_reports_an_ended_process_with_its_log(tmp_path: Path) -> None:
    process = await start("oops", ["sh", "-c", "echo cannot open the door; exit 3"], log=tmp_path / "log")
    with pytest.raises(ProcessDied, match=r"(?s)oops ended with exit code 3 .* an open door.*cannot open the door"):
        await until(lambda: False, seconds=90, what="an open door", process=process)


async def test_a_program_that_does_not_exist_ends_with_127(tmp_path: Path) -> None:
    process = await start("none", ["/does/not/exist"], log=tmp_path / "log")
    assert await process.wait() == 127
    assert "/does/not/exist" in process.tail()
