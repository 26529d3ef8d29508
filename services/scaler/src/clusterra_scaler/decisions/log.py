"""The decision log: files of JSON lines, one file per cluster, which `clusterra-planner replay` decides again.

A full file is rotated: it is renamed after the moment of the decision that no longer fits. The total size is bounded
by deleting the oldest files. Decisions never wait for the log: a thread writes it, and records that it cannot write
are dropped and counted. Another thread reads it, for one who asks at a time.
"""

import asyncio
import os
import queue
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import structlog
from clusterra_contracts.identity import ClusterRef
from prometheus_client import Counter
from pydantic_core import PydanticSerializationError

from clusterra_scaler.decisions.record import RECORD, DecisionRecord
from clusterra_scaler.decisions.search import files_of, find_record

log = structlog.get_logger(__name__)

QUEUE_LENGTH = 64
"""Maximum number of records waiting to be written. Each may hold a queue snapshot of some megabytes."""
FILES = 8
"""A file is full when it takes one such part of the maximum total size."""
STOP_SECONDS = 5.0
"""Maximum time that the process waits at its end for the remaining records to be written."""
WARN_AGAIN_SECONDS = 600.0
"""Minimum interval between two warnings about dropped records."""

LARGE = "large"
"""The directory of the log of the process for large clusters, in that of the scaler: a directory has one writer."""

RECORDS = Counter("clusterra_scaler_decision_records_total", "Records for the decision log, by outcome", ("outcome",))


@contextmanager
def decision_log(directory: Path | None, max_bytes: int, *others: Path) -> Iterator["DecisionLog | None"]:
    """Open the log for a block, and write the waiting records at its end. Without a directory there is no log (None).

    Each scaler process needs a directory of its own. `others` are directories of logs that are read, too.
    """
    if directory is None:
        yield None
        return
    opened = DecisionLog(directory, max_bytes, *others)
    thread = threading.Thread(target=opened.write_until_stopped, name="decision-log", daemon=True)
    thread.start()
    try:
        yield opened
    finally:
        opened.stop()
        thread.join(STOP_SECONDS)


class DecisionLog:
    """Takes records from one thread and writes them in another."""

    def __init__(self, directory: Path, max_bytes: int, *others: Path) -> None:
        self._directory = directory
        self._read_directories = (directory, *others)
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="decision-log-reader")
        self._max_bytes = max_bytes
        self._waiting: queue.Queue[DecisionRecord | None] = queue.Queue(QUEUE_LENGTH)
        self._bytes: int | None = None
        """Total size of all files; None until it is computed."""
        self._warned_at: float | None = None

    def append(self, record: DecisionRecord) -> None:
        """Queue a record for writing. It is dropped if the queue is full, which means that the disk is too slow."""
        try:
            self._waiting.put_nowait(record)
        except queue.Full:
            self._drop(record, "the disk is slower than the decisions")

    async def find(self, ref: ClusterRef, generation: int) -> DecisionRecord | None:
        """The record of the decision that made this desired state of a cluster; None if the log does not have it.

        It may not be written yet, deleted already, in the log of another scaler, or too far back to be looked for.
        """
        return await asyncio.get_running_loop().run_in_executor(
            self._reading, find_record, self._read_directories, ref, generation
        )

    async def forget(self, ref: ClusterRef) -> None:
        """Delete the files of a cluster that is deleted, also those of the logs that are only read. Raises OSError."""
        await asyncio.get_running_loop().run_in_executor(self._reading, self._delete, ref)

    def _delete(self, ref: ClusterRef) -> None:
        for file in files_of(self._read_directories, ref):
            file.unlink(missing_ok=True)

    def write_until_stopped(self) -> None:
        """Write the queued records: the main function of the writing thread."""
        while (record := self._waiting.get()) is not None:
            self._write_or_drop(record)

    def stop(self) -> None:
        """Make the writing thread end once the queue is empty, and the reading one soon."""
        self._reading.shutdown(wait=False, cancel_futures=True)
        with suppress(queue.Full):
            self._waiting.put(None, timeout=STOP_SECONDS)

    def _write_or_drop(self, record: DecisionRecord) -> None:
        try:
            self._write(record)
        except (OSError, PydanticSerializationError) as error:
            self._bytes = None
            self._drop(record, str(error))
        else:
            RECORDS.labels("written").inc()

    def _drop(self, record: DecisionRecord, reason: str) -> None:
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
        if file.exists() and file.stat().st_size + len(line) > self._max_bytes // FILES:
            file.rename(file.with_name(f"{record.cluster.key}.{record.given.observation.now:%Y%m%dT%H%M%S.%f}.jsonl"))
        # Readable by its owner only: it tells who submitted which jobs.
        file.touch(mode=0o600)
        with file.open("r+b") as opened:
            if opened.seek(0, os.SEEK_END):
                opened.seek(-1, os.SEEK_END)
                if opened.read(1) != b"\n":
                    # The last line is incomplete: an earlier process was killed, or the disk was full.
                    line = b"\n" + line
            opened.write(line)
        self._bytes += len(line)
        self._delete_oldest(keep=file)

    def _delete_oldest(self, *, keep: Path) -> None:
        """Delete the oldest files until the total size is within its bound."""
        if self._bytes is None or self._bytes <= self._max_bytes:
            return
        oldest_first = sorted(self._files(), key=lambda file: file.stat().st_mtime_ns)
        # Less than was counted if a cluster was forgotten.
        self._bytes = sum(file.stat().st_size for file in oldest_first)
        for file in oldest_first:
            if self._bytes <= self._max_bytes:
                break
            if file != keep:
                size = file.stat().st_size
                file.unlink()
                self._bytes -= size

    def _files(self) -> list[Path]:
        return list(self._directory.glob("*.jsonl"))
