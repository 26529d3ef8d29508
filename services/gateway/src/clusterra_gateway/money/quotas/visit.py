"""What one visit to a cluster finds: reservations with something to do, jobs without one, and what is over a quota.

Pure. Reservations are added page by page, and only those that need something are kept.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from clusterra_contracts.identity import JobId

from clusterra_gateway.money.quotas.jobs import ListedPrices, LiveJob, of_account
from clusterra_gateway.money.quotas.records import Quota, QuotaScope, Reservation, month_of
from clusterra_gateway.money.quotas.reservations import ClusterReservations

TOLERATED_PERCENT = 125
"""How many percent of its reservation the projected cost of a job's record may reach before more is reserved.

The record may show more than the submit did, such as memory that the submit left to Slurm.
"""
MAX_CHANGED = 1000
"""How many reservations one visit changes. The next visit finds the others."""
MAX_ENDED = 2000
"""How many reservations of ended jobs one visit settles. The next visit goes on with the next ones."""


class CountedJob(NamedTuple):
    """A job that waits or runs, and counts in a quota."""

    newest_at: datetime
    """Since when it takes what it takes (`Reservation.newest_at`)."""
    micro_usd: int
    job_id: JobId


@dataclass
class KilledFor:
    """The reservations of this month in a quota that kills."""

    live: list[CountedJob] = field(default_factory=list)
    ended_micro_usd: int = 0
    """What is reserved for jobs that have ended. It is about to be released."""

    def beyond(self, over: int, gone: Iterable[JobId]) -> list[JobId]:
        """The newest jobs, until those that are left fit. `over`: what is used beyond the ceiling, in micro-USD.

        The jobs `gone` are about to end: their reservations are released without more.
        """
        over -= self.ended_micro_usd
        ending = frozenset(gone)
        # One that grew during the visit is there twice: the later one counts.
        live = {each.job_id: each for each in sorted(self.live)}.values()
        over -= sum(each.micro_usd for each in live if each.job_id in ending)
        found: list[JobId] = []
        for each in sorted(live, reverse=True):
            if over <= 0:
                break
            if each.job_id not in ending:
                found.append(each.job_id)
                over -= each.micro_usd
        return found


class Visit:
    """One visit to a cluster: its jobs and its reservations."""

    def __init__(self, live: Mapping[JobId, LiveJob], quotas: Iterable[Quota], at: datetime, settled: str = "") -> None:
        """`settled`: the reservation that the last visit settled last, if it did not settle all."""
        self._live = live
        self._quotas = tuple(quotas)
        self._month = month_of(at)
        self._settled = settled
        self._booked: set[JobId] = set()
        self._ended: tuple[list[Reservation], list[Reservation]] = [], []
        self.orphans: list[Reservation] = []
        """The reservations of submits whose job is not known."""
        self.changed: list[tuple[Reservation, LiveJob]] = []
        """Reservations of jobs that became dearer, or that another account's quota counts."""
        self.killed_for = {quota.scope: KilledFor() for quota in self._quotas if quota.mode == "block_and_kill"}

    def add(self, page: ClusterReservations, prices: ListedPrices) -> None:
        """Add a page of reservations, in the order of their ids."""
        self._booked |= page.unreadable
        for reservation in page.reservations:
            if not reservation.job_id:
                self.orphans.append(reservation)
            self._booked.add(reservation.job_id)
            job = self._live.get(reservation.job_id)
            self.count(reservation, live=job is not None)
            if job is None:
                ended = self._ended[reservation.id <= self._settled]
                if len(ended) < MAX_ENDED:
                    ended.append(reservation)
            elif len(self.changed) < MAX_CHANGED and self._is_changed(reservation, job, prices):
                self.changed.append((reservation, job))

    def count(self, reservation: Reservation, *, live: bool) -> None:
        """Count a reservation in the quotas that kill."""
        if reservation.month != self._month or not reservation.job_id:
            return
        for scope in self.killed_for.keys() & set[QuotaScope](reservation.scopes):
            if live:
                job = CountedJob(reservation.newest_at, reservation.micro_usd, reservation.job_id)
                self.killed_for[scope].live.append(job)
            else:
                self.killed_for[scope].ended_micro_usd += reservation.micro_usd

    @property
    def ended(self) -> list[Reservation]:
        """The reservations to settle, in turn: after the last one that was settled, the others come again."""
        return [*self._ended[False], *self._ended[True]][:MAX_ENDED]

    def others(self) -> Iterator[LiveJob]:
        """The jobs without a reservation, the oldest first. Only once all pages are added."""
        return (job for job_id, job in self._live.items() if job_id not in self._booked)

    def _is_changed(self, reservation: Reservation, job: LiveJob, prices: ListedPrices) -> bool:
        return is_dearer(reservation, job.projected(prices) or 0) or bool(of_account(self._quotas, reservation, job))


def is_dearer(reservation: Reservation, projected: int) -> bool:
    """Whether a job costs so much more than is reserved that more must be reserved."""
    return projected * 100 > reservation.micro_usd * TOLERATED_PERCENT
