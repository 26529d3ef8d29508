"""Files of lines of JSON, compressed with gzip: written and read in threads, a bounded number of lines at a time."""

import asyncio
import gzip
import hashlib
import os
import zlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import IO, Any, Self

import orjson

from clusterra_admin.backup.manifest import BackupInvalid, File

MAX_LINE_BYTES = 16 * 1024 * 1024
"""An item of DynamoDB has 400 KiB, and a message 8 MiB at most; base64 adds a third."""
BATCH_LINES = 500
BATCH_BYTES = 4 * 1024 * 1024
_COMPRESSION = 5


class _Hashing:
    """A file that computes the checksum of what is written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        self.size += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


class LinesWriter:
    """Writes one file. Only its owner may read it. Open it with `async with`; `file` describes it after the block."""

    def __init__(self, folder: Path, path: str) -> None:
        self._path = path
        self._full_path = folder / path
        self._lock = asyncio.Lock()
        self.lines = 0
        self.file: File | None = None

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._open)
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self._close)

    async def write(self, records: Sequence[object]) -> None:
        """Append a line for each record."""
        async with self._lock:
            await asyncio.to_thread(self._write, records)

    def _open(self) -> None:
        self._full_path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(self._full_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._raw = os.fdopen(descriptor, "wb")
        self._hashing = _Hashing(self._raw)
        self._gzip = gzip.GzipFile("", "wb", _COMPRESSION, self._hashing, mtime=0)

    def _write(self, records: Sequence[object]) -> None:
        for record in records:
            self._gzip.write(orjson.dumps(record) + b"\n")
        self.lines += len(records)

    def _close(self) -> None:
        self._gzip.close()
        self._raw.flush()
        os.fsync(self._raw.fileno())
        self._raw.close()
        self.file = File(
            path=self._path, bytes=self._hashing.size, sha256=self._hashing.sha256.hexdigest(), lines=self.lines
        )


type Line = tuple[int, Any]
"""The number of a line, from 1, and its record; None for a line that is not JSON."""


async def read_batches(path: Path) -> AsyncIterator[list[Line]]:
    """Yield the records of a file in batches of bounded size. Raises OSError, EOFError, zlib.error."""
    with gzip.open(path, "rb") as file:
        number = 0
        while True:
            batch = await asyncio.to_thread(_batch, file, number)
            if not batch:
                return
            number = batch[-1][0]
            yield batch


def _batch(file: gzip.GzipFile, number: int) -> list[Line]:
    batch: list[Line] = []
    size = 0
    while len(batch) < BATCH_LINES and size < BATCH_BYTES:
        line = file.readline(MAX_LINE_BYTES)
        if not line:
            break
        number += 1
        size += len(line)
        try:
            batch.append((number, orjson.loads(line)))
        except orjson.JSONDecodeError:
            batch.append((number, None))
    return batch


async def verify(folder: Path, file: File) -> None:
    """Compare a file with its checksum, and uncompress it: a damaged file may have got a checksum afterwards.

    Raises BackupInvalid.
    """
    try:
        found = await asyncio.to_thread(_checksum, folder / file.path)
    except OSError as error:
        raise BackupInvalid(
            f"{folder / file.path} cannot be read ({error.strerror}): the backup is incomplete"
        ) from error
    if found != file.sha256:
        raise BackupInvalid(
            f"{folder / file.path} has another checksum than in the manifest: it was changed or damaged"
        )
    try:
        await asyncio.to_thread(_uncompress, folder / file.path)
    except (OSError, EOFError, zlib.error) as error:
        raise BackupInvalid(f"{folder / file.path} cannot be uncompressed ({error}): it is damaged") from error


def _uncompress(path: Path) -> None:
    with gzip.open(path, "rb") as file:
        while file.read(BATCH_BYTES):
            pass


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
