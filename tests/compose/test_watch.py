"""`docker compose watch` builds and starts a service again after an edit of its source."""

import asyncio
import os
import secrets
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from clusterra_lab.machine.process import until
from composition import ROOT, CommandFailed, Composition, run

pytestmark = [
    pytest.mark.containers,
    pytest.mark.skipif("COMPOSE_FULL" not in os.environ, reason="`make test-compose` runs it"),
]

LIVE_SECONDS = 60.0
"""On an idle machine with 2 cores it takes 10 seconds."""


@pytest.fixture
async def edited(composed: Composition, tmp_path: Path) -> AsyncIterator[Path]:
    """A copy of the sources that Compose watches; in the end, the gateway is built from the repository again."""
    for file in (await run(["git", "ls-files"], environment={}, seconds=30)).splitlines():
        if (ROOT / file).exists():
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, tmp_path / file)
    watch = await asyncio.create_subprocess_exec(
        *("docker", "compose", "--ansi=never", "watch", "--no-up", "gateway"),
        cwd=tmp_path,
        env={**os.environ, **composed.environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert watch.stdout is not None
    try:
        async with asyncio.timeout(90):
            while b"Watch enabled" not in await watch.stdout.readline():
                assert watch.returncode is None
        yield tmp_path
    finally:
        if watch.returncode is None:
            watch.terminate()
        await watch.communicate()
        await composed.up("--build", "--no-deps", "gateway")


async def test_an_edit_of_the_gateway_is_live_within_seconds(composed: Composition, edited: Path) -> None:
    mark = secrets.token_hex(8)
    with (edited / "services/gateway/src/clusterra_gateway/__init__.py").open("a") as source:
        source.write(f'\nEDITED = "{mark}"\n')

    async def is_live() -> bool:
        show = "import clusterra_gateway as edited; print(getattr(edited, 'EDITED', ''))"
        running = await composed.containers("gateway")
        if len(running) != 1:
            return False
        format_ = "{{.State.Health.Status}}"
        try:
            if (await composed.docker("inspect", f"--format={format_}", running[0])).strip() != "healthy":
                return False
            return mark in await composed.docker("exec", running[0], "python", "-c", show)
        except CommandFailed:
            # The container was replaced meanwhile.
            return False

    await until(is_live, seconds=LIVE_SECONDS, what="the edited gateway to be healthy", every=0.5)
