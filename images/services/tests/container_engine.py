"""Runs the container engine's command line, and containers and networks that end with a block."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, NamedTuple


class File(NamedTuple):
    """An entry of an image's file system; `kind` is `f`, `d` or `l`, `mode` is octal, `size` is in bytes."""

    kind: str
    mode: str
    size: str
    path: str


async def docker(
    *argv: str, environment: Mapping[str, str] | None = None, directory: Path | None = None
) -> CompletedProcess[str]:
    """Run `docker`; its outputs are one text. The exit code is the caller's to judge."""
    process = await asyncio.create_subprocess_exec(
        "docker",
        *argv,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment,
        cwd=directory,
    )
    output, _ = await process.communicate()
    return CompletedProcess(argv, process.returncode or 0, output.decode())


async def done(*argv: str) -> str:
    """Run `docker`, which must succeed; returns its output."""
    ended = await docker(*argv)
    assert ended.returncode == 0, f"docker {' '.join(argv)}:\n{ended.stdout}"
    return ended.stdout.strip()


async def inspect(name: str) -> dict[str, Any]:
    """Returns what the engine knows of an image or a container."""
    (found,) = json.loads(await done("inspect", name))
    return dict(found)


@asynccontextmanager
async def network() -> AsyncIterator[str]:
    """Yield the name of a network that exists until the block ends."""
    name = f"clusterra-test-{uuid.uuid4().hex[:12]}"
    await done("network", "create", "--label=clusterra.test=images", name)
    try:
        yield name
    finally:
        await done("network", "rm", name)


@asynccontextmanager
async def container(image: str, *options: str, command: Sequence[str] = ()) -> AsyncIterator[str]:
    """Run a container until the block ends; yields its id."""
    started = await done("run", "--detach", "--label=clusterra.test=images", *options, image, *command)
    identity = started.split()[-1]
    try:
        yield identity
    finally:
        await done("rm", "--force", "--volumes", identity)


async def files(image: str) -> list[File]:
    """Returns what the file system of an image holds, read by its own `find` as root."""
    listed = await done(
        *("run", "--rm", "--read-only", "--network=none", "--user=0", "--entrypoint=find", image),
        *("/", "-xdev", "(", "-path", "/proc", "-o", "-path", "/sys", "-o", "-path", "/dev", ")", "-prune"),
        *("-o", "-printf", r"%y %m %s %p\n"),
    )
    return [File(*line.split(" ", 3)) for line in listed.splitlines()]
