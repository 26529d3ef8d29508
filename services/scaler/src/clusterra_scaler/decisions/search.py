"""Finds a decision in the files of decision logs: backwards, in pieces, and without reading what is not needed.

Only the line that is wanted is parsed. What is read and how long it takes is bounded: the log may have a gigabyte.
"""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import structlog
from clusterra_contracts.identity import ClusterRef
from pydantic import ValidationError

from clusterra_scaler.decisions.record import RECORD, DecisionRecord

log = structlog.get_logger(__name__)

PIECE_BYTES = 1024 * 1024
"""Another thread has its turn after each piece at the latest."""
MAX_BYTES = 512 * 1024 * 1024
"""How much is read in a search."""
MAX_SECONDS = 5.0
"""Maximum duration of a search: the caller's timeout also covers two decisions."""
MAX_LINE_BYTES = 128 * 1024 * 1024

_NO_CHANGES = b'"changes":[]'


class _Spent(Exception):
    """The search has read as much, or taken as long, as it may."""


class _Budget:
    def __init__(self) -> None:
        self._bytes = MAX_BYTES
        self._ends_at = time.monotonic() + MAX_SECONDS

    def read(self, file: int, begin: int, end: int) -> bytes:
        """Some bytes of a file. Raises _Spent."""
        self._bytes -= end - begin
        if self._bytes < 0 or time.monotonic() > self._ends_at:
            raise _Spent
        return os.pread(file, end - begin, begin)


def find_record(directories: Iterable[Path], ref: ClusterRef, generation: int) -> DecisionRecord | None:
    """The record of the decision that made this desired state of a cluster; None if it is not found.

    Decisions in shadow mode made none. Of several records the newest counts.
    """
    budget = _Budget()
    # As `DecisionRecord` is written. Strings in a record have no bare quotes, so this is found nowhere else in it.
    wanted = b'"decided":{"state":{"generation":%d,' % generation
    try:
        for path in _newest_first(directories, ref):
            with suppress(FileNotFoundError), path.open("rb", buffering=0) as opened:
                for line in _lines_with_changes(wanted, opened.fileno(), budget):
                    record = RECORD.validate_json(line)
                    state = record.decided.state
                    if record.cluster == ref and state.generation == generation and not record.shadow:
                        return record
    except _Spent:
        log.warning("decision_search_ended", cluster=ref.key, generation=generation, reason="the log is too large")
    except (OSError, ValidationError) as error:
        log.warning("decision_not_read", cluster=ref.key, generation=generation, reason=type(error).__name__)
    return None


def files_of(directories: Iterable[Path], ref: ClusterRef) -> Iterator[Path]:
    """The files of a cluster in decision logs. Some may not exist."""
    for directory in directories:
        yield directory / f"{ref.key}.jsonl"
        yield from directory.glob(f"{ref.key}.*.jsonl")


def _newest_first(directories: Iterable[Path], ref: ClusterRef) -> list[Path]:
    found: list[tuple[int, Path]] = []
    for path in files_of(directories, ref):
        with suppress(FileNotFoundError):
            found.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(found, reverse=True)]


def _lines_with_changes(wanted: bytes, file: int, budget: _Budget) -> Iterator[bytes]:
    """Lines that contain `wanted`, last first, without those whose `changes` after it are empty. Raises _Spent.

    Many records of a desired state only keep what the scaler has learned since: they are not parsed.
    """
    size = end = os.fstat(file).st_size
    while end > 0:
        begin = max(end - PIECE_BYTES, 0)
        # What begins in this piece may end in the next one.
        piece = budget.read(file, begin, min(end + len(wanted) - 1, size))
        at = piece.rfind(wanted)
        while at >= 0:
            rest, newline, _ = piece[at:].partition(b"\n")
            if not newline:
                rest = _rest_of_line(file, begin + at, size, budget)
            if _NO_CHANGES not in rest:
                first = _line_begin(file, begin + at, budget)
                yield _rest_of_line(file, first, begin + at, budget) + rest
            at = piece.rfind(wanted, 0, at)
        end = begin


def _line_begin(file: int, position: int, budget: _Budget) -> int:
    """Where the line of a position begins. Raises _Spent for one that is too long."""
    end = position
    while end > 0:
        begin = max(end - PIECE_BYTES, 0)
        at = budget.read(file, begin, end).rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        end = begin
        if position - end > MAX_LINE_BYTES:
            raise _Spent
    return 0


def _rest_of_line(file: int, begin: int, size: int, budget: _Budget) -> bytes:
    """The bytes from here to the end of the line, or to a size. Raises _Spent for a line that is too long."""
    pieces: list[bytes] = []
    for position in range(begin, min(size, begin + MAX_LINE_BYTES), PIECE_BYTES):
        piece = budget.read(file, position, min(position + PIECE_BYTES, size))
        rest, newline, _ = piece.partition(b"\n")
        pieces.append(rest)
        if newline:
            break
    else:
        if size - begin > MAX_LINE_BYTES:
            raise _Spent
    return b"".join(pieces)
