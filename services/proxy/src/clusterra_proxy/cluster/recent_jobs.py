"""The recent lists of a cluster: the jobs and partitions of slurmctld, and the runs in slurmdbd."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from clusterra_contracts.identity import now

from clusterra_proxy.cluster.recent_list import RecentList
from clusterra_proxy.cluster.recent_lists import RecentLists
from clusterra_proxy.slurmrestd.accounting import OLDEST, Accounting
from clusterra_proxy.slurmrestd.accounting_records import SUPERSEDED
from clusterra_proxy.slurmrestd.answers import PartitionDefaults
from clusterra_proxy.slurmrestd.reading.fields import LATEST
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.slurmrestd.slurmctld import Slurmctld

MAX_RUN_LISTS = 64
"""How many lists of runs of a cluster are kept, each for some seconds, or being read: each member has their own."""
WHOLE_SECONDS = 3600
"""Lists begin and end at whole hours, so that readers who ask for slightly different times share one."""
MAX_RUNS = 30_000
"""The most runs that they may have together, some 5 KiB each: 150 MiB. One list alone may have more, because all its
pages need it: as much as slurmrestd's largest answer. All others are forgotten for it then."""

type RecentJobs = RecentList[tuple[JobRecord, ...]]
type RecentPartitions = RecentList[Mapping[str, PartitionDefaults]]
type RecentRuns = RecentLists["Submitted", tuple[JobRecord, ...]]


@dataclass(frozen=True, slots=True)
class RecentReads:
    """All recent lists of a cluster."""

    jobs: RecentJobs
    runs: RecentRuns
    partitions: RecentPartitions

    @classmethod
    def of(cls, slurmctld: Slurmctld, accounting: Accounting, token: Callable[[], str]) -> "RecentReads":
        """Lists that are read with a token of the operator. None is read before it is asked for."""
        return cls(recent_jobs(slurmctld, token), recent_runs(accounting, token), recent_partitions(slurmctld, token))

    async def close(self) -> None:
        """Give up the lists that are being read."""
        await asyncio.gather(self.jobs.close(), self.runs.close(), self.partitions.close())


class Submitted(NamedTuple):
    """The runs that were submitted between two times, of all users or one."""

    after: int
    """Unix time in seconds."""
    before: int | None
    uid: int | None

    @classmethod
    def between(cls, after: datetime | None, before: datetime | None, uid: int | None) -> "Submitted":
        """The runs within the hours of these times: more than were asked for."""
        first = int(min(max(after or OLDEST, OLDEST), LATEST).timestamp()) // WHOLE_SECONDS
        # Python's calendar ends less than an hour after the last time that a request can have.
        last = None
        if before is not None and before < LATEST:
            last = int(max(before, OLDEST).timestamp()) // WHOLE_SECONDS + 1
        return cls(first * WHOLE_SECONDS, None if last is None else last * WHOLE_SECONDS, uid)


def recent_jobs(slurmctld: Slurmctld, token: Callable[[], str]) -> RecentJobs:
    """Return the recent list of all job records of slurmctld, which is read with a token of the operator."""

    async def read() -> tuple[datetime, tuple[JobRecord, ...]]:
        began = now()
        listed = await slurmctld.jobs(token())
        return listed[:2] if listed else (began, ())

    return RecentList(read, ())


def recent_partitions(slurmctld: Slurmctld, token: Callable[[], str]) -> RecentPartitions:
    """Return the recent list of partitions, each with the defaults of its jobs, read with a token of the operator."""

    async def read() -> tuple[datetime, Mapping[str, PartitionDefaults]]:
        began = now()
        return began, await slurmctld.partitions(token())

    return RecentList(read, {})


def recent_runs(accounting: Accounting, token: Callable[[], str]) -> RecentRuns:
    """Return the recent lists of slurmdbd's runs but those that were superseded, read with a token of the operator."""

    async def read(asked: Submitted) -> tuple[datetime, tuple[JobRecord, ...]]:
        began = now()
        after = datetime.fromtimestamp(asked.after, UTC)
        before = None if asked.before is None else datetime.fromtimestamp(asked.before, UTC)
        runs = await accounting.submitted(token(), after=after, before=before, uid=asked.uid)
        return began, tuple(run for run in runs if run.state != SUPERSEDED)

    return RecentLists(read, (), most=MAX_RUN_LISTS, size=len, most_records=MAX_RUNS, abandons=True)
