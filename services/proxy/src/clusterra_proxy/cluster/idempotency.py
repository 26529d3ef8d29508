"""The job of each idempotency key, so that a repeated submit returns that job instead of creating a second one."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from clusterra_contracts.identity import JobId, Moment

from clusterra_proxy.slurmrestd.records import JobRecord

MAX_KEYS = 20_000


@dataclass(frozen=True)
class SubmittedJob:
    """The job that a submit created."""

    job_id: JobId
    submitted_at: Moment


class IdempotencyKeys:
    """The idempotency keys of a cluster's jobs, each with its owner's uid: a comment does not prove who owns a key.

    Keys are learnt from job records and kept after the records are purged. The oldest keys are dropped.
    """

    def __init__(self) -> None:
        self._jobs: OrderedDict[tuple[int, str], SubmittedJob] = OrderedDict()
        self._uncertain: set[tuple[int, str]] = set()
        self._locks: dict[tuple[int, str], asyncio.Lock] = {}

    @asynccontextmanager
    async def lock(self, uid: int, key: str) -> AsyncIterator[None]:
        """Serialize submits with the same key."""
        lock = self._locks.setdefault((uid, key), asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._locks.pop((uid, key), None)

    def find(self, uid: int, key: str) -> SubmittedJob | None:
        """Return the job of this key, or None."""
        return self._jobs.get((uid, key))

    def add(self, uid: int, key: str, job: SubmittedJob) -> None:
        """Record the job of a key."""
        self._uncertain.discard((uid, key))
        self._jobs.setdefault((uid, key), job)
        while len(self._jobs) > MAX_KEYS:
            self._jobs.popitem(last=False)

    def mark_uncertain(self, uid: int, key: str) -> None:
        """Record that the outcome of a submit with this key is unknown."""
        if len(self._uncertain) >= MAX_KEYS:
            self._uncertain.clear()
        self._uncertain.add((uid, key))

    def is_uncertain(self, uid: int, key: str) -> bool:
        """Return whether Slurm must be asked before this key is used again."""
        return (uid, key) in self._uncertain

    def learn(self, records: Iterable[JobRecord]) -> None:
        """Record the keys in job records."""
        for record in records:
            key = record.parsed_comment.key
            if key and record.user_id is not None and record.submit_time is not None:
                job_id = str(record.array or record.job_id)
                self.add(record.user_id, key, SubmittedJob(job_id, record.submit_time))
