"""Opens an input: a file or standard input, plain or gzip, and finds out which format it has."""

import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from clusterra_planner_tools.advise.left_out import NotReadable
from clusterra_planner_tools.advise.progress import Progress
from clusterra_planner_tools.advise.sacct_rows import COMMAND, is_header

type Format = Literal["sacct --json", "sacct --parsable2", "swf"]

STDIN = Path("-")
LINE_BYTES = 1024 * 1024
"""A longer line is cut, and then is no record."""
_PEEK = 64 * 1024
_GZIP = b"\x1f\x8b"


class _Counted(io.RawIOBase):
    """Reports how much has been read."""

    def __init__(self, raw: io.RawIOBase, total: int | None, progress: Progress) -> None:
        self._raw, self._total, self._progress, self._read = raw, total, progress, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int | None:
        got = self._raw.readinto(buffer)  # type: ignore[arg-type]
        self._read += got or 0
        self._progress("reading", self._read, self._total)
        return got


@contextmanager
def opened(path: Path, progress: Progress) -> "Iterator[io.BufferedReader[Any]]":
    """The bytes of an input, unpacked. Raises NotReadable."""
    try:
        with _raw(path) as raw:
            information = os.fstat(raw.fileno())
            total = information.st_size if stat.S_ISREG(information.st_mode) else None
            stream: io.BufferedReader[Any] = io.BufferedReader(_Counted(raw, total, progress), _PEEK)
            if stream.peek(2)[:2] == _GZIP:
                stream = io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=stream)), _PEEK)
            yield stream
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise NotReadable(f"{path}: a damaged gzip file: {error}") from None
    except OSError as error:
        raise NotReadable(f"{path}: {error.strerror or error}; name a file, or - for standard input") from None


def _raw(path: Path) -> io.FileIO:
    return io.FileIO(sys.stdin.fileno(), closefd=False) if path == STDIN else io.FileIO(path)


def format_of(stream: "io.BufferedReader[Any]", path: Path) -> Format:
    """The format, judged by the beginning. Nothing of the stream is used up. Raises NotReadable."""
    beginning = stream.peek(_PEEK)[:_PEEK]
    text = beginning.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if text[:1] == "{":
        return "sacct --json"
    first = text.split("\n", 1)[0]
    if is_header(first):
        return "sacct --parsable2"
    if first.startswith(";") or _is_numeric(first):
        return "swf"
    if not text:
        raise NotReadable(f"{path}: empty; a good input is that of\n  {COMMAND}")
    if "|" in first:
        raise NotReadable(
            f"{path}: no header with JobID in its first line; run sacct without --noheader. A good input is that of\n"
            f"  {COMMAND}"
        )
    raise NotReadable(
        f"{path}: neither `sacct --json`, nor `sacct --parsable2`, nor a trace in the Standard Workload Format. A good"
        f" input is that of\n  {COMMAND}"
    )


def lines_of(stream: BinaryIO) -> Iterator[str]:
    """The lines, with what is no UTF-8 replaced. A byte order mark is left out."""
    first = True
    while line := stream.readline(LINE_BYTES):
        text = line.decode("utf-8", "replace")
        yield text.lstrip("\ufeff") if first else text
        first = False


def _is_numeric(line: str) -> bool:
    words = line.split()
    try:
        [float(each) for each in words[:10]]
    except ValueError:
        return False
    return len(words) >= 10
