"""The shared Debian root: from the environment, or built once. `test_slurm` uses the root built for real."""

import asyncio
import fcntl
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from clusterra_lab.machine.debian_root import RootNotBuilt
from clusterra_lab.machine.process import until
from clusterra_lab.slurm.root import DATABASE, GIVEN, ensure_root

BUILD = """
import asyncio
from clusterra_lab.slurm.root import ensure_root
asyncio.run(ensure_root())
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLUSTERRA_CACHE", str(tmp_path))
    monkeypatch.delenv(GIVEN, raising=False)
    return tmp_path


async def test_a_root_from_the_environment_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = tmp_path / "given"
    for needed in ("usr/sbin/slurmctld", "usr/bin/tini", "usr/lib/clusterra", DATABASE):
        (given / needed).mkdir(parents=True)
    monkeypatch.setenv(GIVEN, str(given))
    assert await ensure_root() == given


async def test_a_root_without_slurm_in_the_environment_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(GIVEN, str(tmp_path))
    with pytest.raises(RootNotBuilt, match=f"{GIVEN}={tmp_path} .* no usr/sbin/slurmctld"):
        await ensure_root()


async def test_a_root_without_the_software_that_is_asked_for_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "var/lib/dpkg/info"
    for needed in ("usr/sbin/slurmctld", "usr/bin/tini", "usr/lib/clusterra", DATABASE, installed):
        (tmp_path / needed).mkdir(parents=True)
    for file in ("lmod.list", "libmpich-dev:amd64.list", "apptainer.list"):
        (installed / file).touch()
    monkeypatch.setenv(GIVEN, str(tmp_path))

    there = await ensure_root(software=("lmod", "libmpich-dev", "apptainer/sid"))

    assert there == tmp_path
    with pytest.raises(RootNotBuilt, match="has no package gcc: install it there"):
        await ensure_root(software=("lmod", "gcc"))


async def test_only_root_can_build(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(RootNotBuilt, match="run this as root"):
        await ensure_root()
    assert [path.suffix for path in cache.iterdir()] == [".lock"]


async def test_a_second_build_waits_for_the_first(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without root, the waiting build would fail if it built anything itself.
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(RootNotBuilt):
        await ensure_root()

    (lock,) = cache.glob("*.lock")
    waits = asyncio.Event()

    with lock.open() as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        second = asyncio.create_task(ensure_root(lambda step: waits.set()))
        await asyncio.wait_for(waits.wait(), 90)
        assert not second.done()
        lock.with_suffix("").mkdir()

    assert await asyncio.wait_for(second, 90) == lock.with_suffix("")


@pytest.mark.slurm
@pytest.mark.skipif(os.geteuid() != 0, reason="a Debian root can only be built by root")
async def test_a_killed_build_leaves_no_process_mount_or_root(cache: Path) -> None:
    builder = await asyncio.create_subprocess_exec(sys.executable, "-c", BUILD)
    try:

        def bootstrapping() -> bool:
            return any(
                "sbin/debootstrap" in part for part in _arguments(psutil.Process(builder.pid).children(recursive=True))
            )

        await until(bootstrapping, seconds=60, what="debootstrap")
    finally:
        builder.send_signal(signal.SIGKILL)
        await builder.wait()
    await until(lambda: not _mentioning(cache), seconds=90, what="the end of the build")
    assert str(cache) not in Path("/proc/self/mountinfo").read_text()
    assert sorted(path.suffix for path in cache.iterdir()) == [".building", ".lock", ".log"]


def _arguments(processes: list[psutil.Process]) -> list[str]:
    arguments: list[str] = []
    for process in processes:
        try:
            arguments += process.cmdline()
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return arguments


def _mentioning(path: Path) -> list[str]:
    return [argument for argument in _arguments(list(psutil.process_iter())) if str(path) in argument]
