"""A backup as one file: a tar archive of the folder."""

import asyncio
import os
import shutil
import tarfile
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from clusterra_admin.backup.manifest import BackupInvalid

SUFFIX = ".tar"


@asynccontextmanager
async def written(path: Path) -> AsyncIterator[Path]:
    """Yield the folder to write a backup to. For a path that ends in `.tar`, it becomes that file after the block.

    The file appears only when it is whole. Raises BackupInvalid if it exists, and OSError.
    """
    if path.suffix != SUFFIX:
        yield path
        return
    if path.exists():
        raise BackupInvalid(f"{path} already exists: choose a new file for each backup")
    folder = Path(tempfile.mkdtemp(prefix=f".{path.stem}-", dir=path.parent))
    try:
        yield folder
        await asyncio.to_thread(_pack, folder, path)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Path]:
    """Yield the folder of a backup; that of an archive is unpacked beside it until the block ends.

    Raises BackupInvalid and OSError.
    """
    if path.suffix != SUFFIX:
        yield path
        return
    folder = Path(tempfile.mkdtemp(prefix=f".{path.stem}-", dir=path.parent))
    try:
        await asyncio.to_thread(_unpack, path, folder)
        yield folder
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)


def _pack(folder: Path, path: Path) -> None:
    partial = folder / "archive.partial"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            for each in sorted(folder.rglob("*")):
                if each.is_file() and each != partial:
                    archive.add(each, arcname=str(each.relative_to(folder)))
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def _unpack(path: Path, folder: Path) -> None:
    try:
        with tarfile.open(path, mode="r:") as archive:
            archive.extractall(folder, filter="data")
    except tarfile.TarError as error:
        raise BackupInvalid(f"{path} is not a tar archive of a backup ({error})") from error
