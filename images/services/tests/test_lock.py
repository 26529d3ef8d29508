"""The images take their dependencies from the lock: a hash that does not match, or is missing, fails the build."""

import re
import shutil
from pathlib import Path

import pytest
from container_engine import docker
from service_containers import ROOT

pytestmark = [pytest.mark.containers, pytest.mark.usefixtures("images")]


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """A copy of what the Dockerfile needs to install the dependencies."""
    for path in ("pyproject.toml", "requirements.lock", ".dockerignore"):
        shutil.copy(ROOT / path, tmp_path)
    for path in ("libs", "services", "admin", "cli", "catalog", "images/services"):
        shutil.copytree(ROOT / path, tmp_path / path, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    return tmp_path


def _block(lock: str, package: str) -> str:
    found = re.search(rf"^{package}==.*\n(?:    .*\n)*", lock, re.MULTILINE)
    assert found is not None
    return found[0]


async def _built(context: Path) -> tuple[bool, str]:
    arguments = ("--target=libs", f"--file={context}/images/services/Dockerfile", "--progress=plain", str(context))
    ended = await docker("build", *arguments)
    return ended.returncode == 0, ended.stdout


async def test_a_copy_of_the_context_builds(context: Path) -> None:
    built, output = await _built(context)

    assert built, output[-4000:]


async def test_a_package_with_another_hash_is_not_installed(context: Path) -> None:
    lock = context / "requirements.lock"
    block = _block(lock.read_text(), "structlog")
    lock.write_text(lock.read_text().replace(block, re.sub(r"sha256:.{8}", "sha256:00000000", block)))

    built, output = await _built(context)

    assert not built
    assert "Hash mismatch for `structlog==" in output


async def test_a_package_that_the_lock_lacks_is_not_installed(context: Path) -> None:
    lock = context / "requirements.lock"
    lock.write_text(lock.read_text().replace(_block(lock.read_text(), "structlog"), ""))

    built, output = await _built(context)

    assert not built
    assert "all requirements must have a hash, but none were provided for: structlog" in output
