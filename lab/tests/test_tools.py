"""The tools' virtual environment, with the real uv and an empty lock."""

import asyncio
import sys
from pathlib import Path

import pytest
from clusterra_lab.machine.cache import cache_dir
from clusterra_lab.machine.process import run
from clusterra_lab.parts import tools
from clusterra_lab.parts.tools import ToolsNotInstalled, tools_python


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLUSTERRA_CACHE", str(tmp_path / "cache"))
    lock = tmp_path / "tools.lock"
    lock.write_text("# nothing\n")
    monkeypatch.setattr(tools, "LOCK", lock)
    return lock


async def test_concurrent_installations_install_once(lock: Path) -> None:
    steps: list[str] = []
    first, second = await asyncio.gather(tools_python(steps.append), tools_python(steps.append))

    assert first == second
    assert sum("once" in step for step in steps) == 1
    assert await tools_python(steps.append) == first
    assert sum("once" in step for step in steps) == 1

    prefix = await run("tools", [str(first), "-c", "import sys; print(sys.prefix)"], log=lock.with_suffix(".log"))

    assert prefix.tail() == str(first.parent.parent)
    assert prefix.tail() != sys.prefix


async def test_another_lock_has_another_environment(lock: Path) -> None:
    before = await tools_python()
    lock.write_text("# still nothing\n")
    assert await tools_python() != before


async def test_an_incomplete_installation_is_repeated(lock: Path) -> None:
    python = await tools_python()
    (python.parent.parent / "complete").unlink()
    (python.parent.parent / "rubbish").touch()
    assert await tools_python() == python
    assert not (python.parent.parent / "rubbish").exists()


async def test_a_failed_installation_is_reported_with_its_reason(lock: Path) -> None:
    lock.write_text("nothing @ file:///does/not/exist.whl --hash=sha256:" + "0" * 64 + "\n")
    with pytest.raises(ToolsNotInstalled, match=r"(?s)uv pip ended with exit code .*does/not/exist"):
        await tools_python()


def test_the_lock_pins_all_packages_and_names_no_url() -> None:
    lines = tools.LOCK.read_text().splitlines()
    assert all("==" in line for line in lines if not line.startswith("    --hash=sha256:"))
    assert not any("//" in line or line.startswith("#") for line in lines)


def test_the_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CLUSTERRA_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    assert cache_dir() == tmp_path / ".cache" / "clusterra"

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))

    assert cache_dir() == tmp_path / "xdg" / "clusterra"

    monkeypatch.setenv("CLUSTERRA_CACHE", str(tmp_path / "own"))

    assert cache_dir() == tmp_path / "own"
    assert cache_dir().is_dir()
