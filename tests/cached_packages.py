"""Packages of registries in folders of the cache, for programs that tests run and the product does not have."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from clusterra_lab.machine.cache import cache_dir
from clusterra_lab.machine.file_lock import exclusive_lock
from clusterra_lab.machine.process import run
from uv import find_uv_bin


@asynccontextmanager
async def made_once(name: str, *, seconds: float = 600) -> AsyncIterator[tuple[Path, bool]]:
    """A folder of the cache, and whether the block must fill it. It counts as made when such a block ends well."""
    folder = cache_dir() / name
    async with exclusive_lock(cache_dir() / f"{name}.lock", seconds=seconds, what=f"the installation of {name}"):
        missing = not (folder / "complete").exists()
        if missing:
            shutil.rmtree(folder, ignore_errors=True)
        yield folder, missing
        if missing:
            (folder / "complete").touch()


async def installed(name: str, *packages: str, options: tuple[str, ...] = ()) -> Path:
    """A folder of the cache with these packages of PyPI, which is made once."""
    async with made_once(name) as (folder, missing):
        if missing:
            command = [find_uv_bin(), "pip", "install", "--quiet", "--only-binary", ":all:", "--target", str(folder)]
            log = cache_dir() / f"{name}.log"
            made = await run(name, [*command, *options, *packages], log=log)
            assert made.exit_code == 0, log.read_text()
    return folder


def linked(source: str, target: str) -> str:
    """Copies a file for shutil.copytree, as a hard link where the file system is the same."""
    try:
        Path(target).hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)
    return target
