"""Looks at the jobs of a cluster: cheap looks at all states, single reads of what is different, seldom a list."""

import asyncio
import time
from collections.abc import Iterable

import structlog
from clusterra_contracts.identity import JobId, now

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.slurmrestd.accounting_records import SUPERSEDED
from clusterra_proxy.slurmrestd.errors import NotFound, SlurmFailed
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.watch.event_queue import Teller
from clusterra_proxy.watch.job_facts import Ledger, happenings, occurrence
from clusterra_proxy.watch.replay import RETENTION

log = structlog.get_logger(__name__)

RECONCILE_SECONDS = 5.0
"""How often all jobs are listed if anything changed: reasons and priorities change without the states."""
LIST_SHARE = 50
"""One part in so many of the time may go into lists: 2,000 jobs (1.2 s) are listed once a minute."""
FEW_READS = 8
READS_PER_LISTED = 5
"""Reading one job takes as long as so many in a list."""
LOST_SECONDS = 60.0
"""How long accounting is asked for the end of a job that slurmctld knows no more."""


class JobWatch:
    """The watcher's part for jobs. Facts wait until it is known what was told before (`begin`)."""

    def __init__(self, cluster: Cluster, teller: Teller) -> None:
        self._cluster = cluster
        self._teller = teller
        self._told: Ledger | None = None
        self._caught_up = False
        self._updated: int | None = None
        self._list_after = 0.0
        self._lost: dict[JobId, tuple[JobRecord, float]] = {}

    def begin(self, told: Ledger) -> None:
        """Tell facts from now on: what the table proves and was not told."""
        self._told = told
        self.tell(self._cluster.jobs)

    def catch_up(self, missed: Iterable[JobRecord]) -> None:
        """Tell what happened while nobody watched. Only after that may be forgotten what was told."""
        records = tuple(missed)
        self._cluster.keys.learn(records)
        self.tell(records)
        self._caught_up = True

    def tell(self, records: Iterable[JobRecord]) -> None:
        """Tell what records prove, if it is known what was told before.

        What is older than the event stream remembers counts as told: nobody can know any more.
        """
        if self._told is None:
            return
        oldest = now() - RETENTION
        for record in records:
            for happening in self._told.news(happenings(record)):
                if happening.time > oldest:
                    self._teller.tell(occurrence(happening, record, self._cluster.owner(record)))

    async def look(self) -> None:
        """Bring the table up to date. Raises the errors of `slurmrestd.errors`; then the next look goes on."""
        try:
            await self._look(self._cluster.mint.operator())
        except SlurmFailed:
            # Slurm may come back with other jobs under the same ids, so its next list must be a whole one.
            self._updated = None
            raise

    async def _look(self, token: str) -> None:
        if time.monotonic() >= self._list_after:
            await self._list(token)
        asked_at = now()
        states = await self._cluster.controller.states(token)
        difference = self._cluster.jobs.compare(states.jobs, asked_at)
        self._miss(difference.gone)
        await self._read(token, difference.changed, len(states.jobs))
        self.tell(self._cluster.jobs.cancelled_tasks(asked_at))
        self._cluster.jobs_seen_at = asked_at

    async def settle(self) -> None:
        """Ask accounting how the jobs ended that slurmctld forgot before we saw it.

        Raises the errors of `slurmrestd.errors`; then it is asked again.
        """
        if self._told is None:
            return
        for job_id, (record, since) in tuple(self._lost.items()):
            runs = await self._cluster.accounting.job(self._cluster.mint.operator(), job_id)
            owner = {"user_id": record.user_id, "user_name": record.user_name}
            self.tell(run.model_copy(update=owner) for run in runs if run.ended)
            if any(_ends(run, record) for run in runs):
                del self._lost[job_id]
            elif time.monotonic() - since > LOST_SECONDS:
                log.warning("job_end_unknown", job_id=job_id, hint="slurmctld and slurmdbd know no end of it")
                del self._lost[job_id]

    def _miss(self, gone: Iterable[JobRecord]) -> None:
        for record in gone:
            if not record.ended:
                self._lost[record.id] = record, time.monotonic()

    async def _list(self, token: str) -> None:
        began = time.monotonic()
        listed = await self._cluster.controller.jobs(token, changed_after=self._updated)
        took = time.monotonic() - began
        self._list_after = time.monotonic() + max(RECONCILE_SECONDS, LIST_SHARE * took)
        if listed is None:
            return
        asked_at, records, self._updated = listed
        self._miss(self._cluster.jobs.replace(records, asked_at))
        self._cluster.keys.learn(records)
        self.tell(records)
        if self._told is not None and self._caught_up:
            kept = {record.id for record in self._cluster.jobs} | self._lost.keys()
            self._told.keep(kept | {job_id.partition("_")[0] for job_id in kept})

    async def _read(self, token: str, changed: frozenset[int], total: int) -> None:
        if len(changed) > max(FEW_READS, total / READS_PER_LISTED):
            self._updated = None
            await self._list(token)
            return
        # All of them to their end: one that fails must not leave others behind that answer into a later look.
        results = await asyncio.gather(*(self._read_one(token, number) for number in changed), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _read_one(self, token: str, number: int) -> None:
        asked_at = now()
        try:
            records = await self._cluster.controller.job(token, str(number))
        except NotFound:
            # Gone since the look at the states: the next one misses it.
            return
        for record in records:
            self._cluster.jobs.put(record, asked_at)
        self._cluster.keys.learn(records)
        self.tell(records)


def _ends(run: JobRecord, lost: JobRecord) -> bool:
    if run.submit_time is None or lost.submit_time is None:
        return run.ended
    return run.ended and run.state != SUPERSEDED and run.submit_time >= lost.submit_time
