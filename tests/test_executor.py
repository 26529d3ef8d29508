"""`ClusterExecutor` on the lab: functions as jobs of a real Slurm, and their results back through the bucket."""

import asyncio
import math
import os
import pickle
import shutil
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import CancelledError, Future, as_completed
from pathlib import Path
from typing import Any

import pytest
from clusterra import CallFailed, Client, ClusterExecutor
from clusterra.errors import BucketRefused, NotFound, Problem
from clusterra.executor.errors import CannotPickle, PythonDiffers, ResultNotRead, ResultRefused
from clusterra.executor.pickling import opened, written
from clusterra.files.files import Files
from clusterra.job import Job
from clusterra.operations.waiting import Awaited
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack

SECONDS = 240.0
JOB = {"time_limit": 5, "memory_per_cpu": 256}
LEFT_OUT = ("test", "site-packages", "idlelib", "ensurepip", "tkinter", "turtledemo", "pydoc_data", "__pycache__")


@pytest.fixture(scope="module")
def python(lab: Stack) -> Iterator[str]:
    """The Python of these tests in the shared folder: its path in jobs. The lab's own Python may be another one."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    base, copy = Path(sys.base_prefix), lab.slurm.shared_dir / "same-python"
    for folder in ("bin", "lib"):
        (copy / folder).mkdir(parents=True)
    shutil.copy2((base / "bin" / version).resolve(), copy / "bin" / version)
    for library in (base / "lib").glob("libpython*.so*"):
        shutil.copy2(library, copy / "lib" / library.name)
    shutil.copytree(
        base / "lib" / version, copy / "lib" / version, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True
    )
    # Its libraries are where they are for its own prefix, and not here.
    (copy / "python").write_text(
        '#!/bin/sh\nhere=$(dirname "$0")\n'
        f'LD_LIBRARY_PATH="$here/lib" PYTHONHOME="$here" exec "$here/bin/{version}" "$@"\n'
    )
    (copy / "python").chmod(0o755)
    yield f"{lab.slurm.shared_path}/same-python/python"
    shutil.rmtree(copy)


@pytest.fixture
async def client(lab: Stack, ada: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    monkeypatch.setenv("CLUSTERRA_CONFIG", str(tmp_path / "config.toml"))
    async with ada.api_token("executor") as token:
        with Client(lab.gateway_url, token, cluster=ada.cluster) as client:
            yield client


async def in_thread[T](function: Callable[[], T]) -> T:
    """What a program without asyncio does, while the lab goes on."""
    async with asyncio.timeout(SECONDS):
        return await asyncio.to_thread(function)


async def test_twenty_calls_are_twenty_jobs(client: Client, python: str) -> None:
    base = 100

    def run() -> dict[int, int]:
        with ClusterExecutor(JOB, client=client, python=python) as executor:
            futures: dict[Future[Any], int] = {
                executor.submit(lambda x, add: x * x + add, number, add=base): number for number in range(20)
            }
            return {futures[each]: each.result() for each in as_completed(futures, timeout=SECONDS)}

    assert await in_thread(run) == {number: number * number + base for number in range(20)}
    assert list(client.files.list("scripts/clusterra-executor", recursive=True)) == []
    assert list(client.files.list("outputs/clusterra-executor", recursive=True)) == []


async def test_a_map_is_one_array(client: Client, python: str) -> None:
    def run() -> tuple[list[Any], list[int]]:
        with ClusterExecutor(JOB | {"name": "mapped"}, client=client, python=python) as executor:
            places = executor.map(lambda x, y: (x + y, os.environ["SLURM_ARRAY_JOB_ID"]), range(5), range(5, 10))
            chunks = executor.map(math.factorial, range(7), chunksize=3)
            return list(places), list(chunks)

    places, factorials = await in_thread(run)

    assert [value for value, _ in places] == [5, 7, 9, 11, 13]
    assert len({job for _, job in places}) == 1
    assert factorials == [math.factorial(number) for number in range(7)]


async def test_what_can_be_named_runs_with_any_python(client: Client) -> None:
    def run() -> Any:
        with ClusterExecutor(JOB, client=client) as executor:
            return executor.submit(math.comb, 10, 3).result(SECONDS)

    assert await in_thread(run) == 120


async def test_an_exception_a_killed_job_and_a_cancelled_one(lab: Stack, client: Client, python: str) -> None:
    def fails() -> None:
        raise LookupError("there is no such sample")

    def is_killed() -> None:
        print("the last words", flush=True)
        os.kill(os.getpid(), 9)

    def sleeps() -> None:
        import time

        time.sleep(600)

    def run() -> tuple[BaseException | None, BaseException | None, Any]:
        with ClusterExecutor(JOB, client=client, python=python) as executor:
            failing, killed, sleeping = map(executor.submit, (fails, is_killed, sleeps))
            told = failing.exception(SECONDS), killed.exception(SECONDS)
            running = threading.Event()
            while sleeping.job is None or sleeping.job.refresh().state != "RUNNING":
                running.wait(0.3)
            assert sleeping.cancel()
            assert sleeping.cancelled()
            assert not failing.cancel()
            with pytest.raises(CancelledError):
                sleeping.result(1)
            return *told, sleeping.job.wait(SECONDS)

    error, lost, record = await in_thread(run)

    assert isinstance(error, LookupError)
    assert str(error) == "there is no such sample"
    assert "in fails" in str(error.__cause__)
    assert isinstance(lost, CallFailed)
    assert lost.state == "FAILED"
    assert "the last words" in lost.output
    assert record.state == "CANCELLED"


async def test_a_result_that_cannot_be_read_stays(
    lab: Stack, client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise BucketRefused(403, "AccessDenied")

    def run() -> BaseException | None:
        with ClusterExecutor(JOB, client=client) as executor, monkeypatch.context() as patched:
            patched.setattr(Files, "download", refused)
            return executor.submit(math.comb, 10, 3).exception(SECONDS)

    error = await in_thread(run)

    assert isinstance(error, ResultNotRead)
    assert isinstance(error.__cause__, BucketRefused)
    await in_thread(lambda: client.files.download(error.path, tmp_path / "result"))
    assert b"values" in (tmp_path / "result").read_bytes()
    (folder,) = lab.slurm.shared_dir.glob(f".clusterra-executor-{error.path.split('/')[2]}")
    assert [each.name for each in folder.iterdir() if each.name.endswith(".calls")] == []
    await in_thread(lambda: client.files.delete(error.path))


async def test_the_result_of_a_job_that_slurm_has_forgotten_is_read(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = NotFound(Problem(404, "/v1/problems/not-found", "there is no such job"))

    def forgotten(*_: object) -> None:
        raise unknown

    def watched(awaited: list[Awaited], *_: object, **__: object) -> None:
        (job,) = awaited
        pause = threading.Event()
        while not job.over(client.job(job.job_id).refresh()):
            pause.wait(0.3)
        monkeypatch.setattr(Job, "refresh", forgotten)
        raise unknown

    monkeypatch.setattr("clusterra.executor.executor.completed", watched)

    def run() -> Any:
        with ClusterExecutor(JOB, client=client) as executor:
            return executor.submit(math.comb, 10, 3).result(SECONDS)

    assert await in_thread(run) == 120


async def test_another_python_is_told(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterra.executor.pickling.platform.python_version_tuple", lambda: ("3", "2", "0"))

    def run() -> BaseException | None:
        with ClusterExecutor(JOB, client=client) as executor:
            return executor.submit(lambda: None).exception(SECONDS)

    error = await in_thread(run)

    assert isinstance(error, PythonDiffers)
    assert "Python 3.2" in str(error)


async def test_a_result_that_somebody_has_written_is_not_unpickled(tmp_path: Path) -> None:
    ran: list[str] = []

    class Hostile:
        def __reduce__(self) -> tuple[Any, ...]:
            return ran.append, ("code of somebody else",)

    with (tmp_path / "calls").open("wb") as file:
        plan = written("batch-1", math.factorial, [[((3,), {})]], file)

    with pytest.raises(ResultRefused):
        opened(plan, 0, bytes(32) + pickle.dumps(("values", [6], "")))
    with pytest.raises(ResultRefused):
        opened(plan, 0, b"short")
    assert ran == []
    assert plan.key.hex() not in repr(plan)


async def test_what_cannot_be_pickled_is_told_at_once(client: Client) -> None:
    def run() -> None:
        with ClusterExecutor(JOB, client=client) as executor:
            executor.submit(lambda lock: lock, threading.Lock())

    with pytest.raises(CannotPickle, match="lock"):
        await in_thread(run)
