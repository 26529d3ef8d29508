"""The log of decisions: files of JSON lines, one file per cluster, which `clusterra-planner replay` decides again.

A file that is full is put aside under the moment of its last decision. All files together are bounded: the oldest go.
Decisions never wait for it: a thread writes, and what it cannot write is counted and left out.
"""

import os
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import structlog
from prometheus_client import Counter
from pydantic_core import PydanticSerializationError

from clusterra_scaler.decision_record import RECORD, DecisionRecord

log = structlog.get_logger(__name__)

WAITING_AT_MOST = 64
"""So many decisions wait to be written; each may hold a queue of some megabytes."""
FILES = 8
"""A file is full when it has this share of what all may have."""
STOP_SECONDS = 5.0
"""How long the end of the process waits for what is still to be written."""
WARN_AGAIN_SECONDS = 600.0

RECORDS = Counter(
    "clusterra_scaler_decision_records_total", "Lines of the decision log, by what became of them", ("outcome",)
)


@contextmanager
def decision_log(directory: Path | None, most_bytes: int) -> Iterator["DecisionLog | None"]:
    """Log within the block, at whose end what is noted is written; None where there is no directory to log to.

    Each scaler process needs a directory of its own.
    """
    if directory is None:
        yield None
        return
    opened = DecisionLog(directory, most_bytes)
    thread = threading.Thread(target=opened.write_until_stopped, name="decision-log", daemon=True)
    thread.start()
    try:
        yield opened
    finally:
        opened.stop()
        thread.join(STOP_SECONDS)


class DecisionLog:
    """What is noted by one thread is written by another."""

    def __init__(self, directory: Path, most_bytes: int) -> None:
        self._directory = directory
        self._most_bytes = most_bytes
        self._waiting: queue.Queue[DecisionRecord | None] = queue.Queue(WAITING_AT_MOST)
        self._bytes: int | None = None
        """Of all files; None before they were counted."""
        self._warned_at: float | None = None

    def note(self, record: DecisionRecord) -> None:
        """Have a record written soon; it is left out where the disk is slower than the decisions."""
        try:
            self._waiting.put_nowait(record)
        except queue.Full:
            self._failed(record, "the disk is slower than the decisions")

    def write_until_stopped(self) -> None:
        """Write what is noted, in a thread of its own."""
        while (record := self._waiting.get()) is not None:
            self._take(record)

    def stop(self) -> None:
        """Let the thread end once what waits is written."""
        with suppress(queue.Full):
            self._waiting.put(None, timeout=STOP_SECONDS)

    def _take(self, record: DecisionRecord) -> None:
        try:
            self._write(record)
        except (OSError, PydanticSerializationError) as error:
            self._bytes = None
            self._failed(record, str(error))
        else:
            RECORDS.labels("written").inc()

    def _failed(self, record: DecisionRecord, reason: str) -> None:
        RECORDS.labels("left_out").inc()
        if self._warned_at is None or time.monotonic() - self._warned_at > WARN_AGAIN_SECONDS:
            self._warned_at = time.monotonic()
            log.warning(
                "decision_not_logged", cluster=record.cluster.key, reason=reason, directory=str(self._directory)
            )

    def _write(self, record: DecisionRecord) -> None:
        line = RECORD.dump_json(record, by_alias=True) + b"\n"
        if self._bytes is None:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._bytes = sum(file.stat().st_size for file in self._files())
        file = self._directory / f"{record.cluster.key}.jsonl"
        if file.exists() and file.stat().st_size + len(line) > self._most_bytes // FILES:
            file.rename(file.with_name(f"{record.cluster.key}.{record.given.observation.now:%Y%m%dT%H%M%S.%f}.jsonl"))
        # Only its owner may read it: it tells who submitted what.
        file.touch(mode=0o600)
        with file.open("r+b") as opened:
            if opened.seek(0, os.SEEK_END):
                opened.seek(-1, os.SEEK_END)
                if opened.read(1) != b"\n":
                    # The end of an earlier process or of the disk's room has cut a line off.
                    line = b"\n" + line
            opened.write(line)
        self._bytes += len(line)
        self._make_room(file)

    def _make_room(self, written: Path) -> None:
        if self._bytes is None or self._bytes <= self._most_bytes:
            return
        oldest_first = sorted(self._files(), key=lambda file: file.stat().st_mtime_ns)
        for file in oldest_first:
            if self._bytes <= self._most_bytes:
                break
            if file != written:
                size = file.stat().st_size
                file.unlink()
                self._bytes -= size

    def _files(self) -> list[Path]:
        return list(self._directory.glob("*.jsonl"))
