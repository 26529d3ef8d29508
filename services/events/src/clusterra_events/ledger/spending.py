"""What a cluster costs now, this month and probably by its end, for each user and account, and as overhead.

**Forecast**: the month to date, and what runs at this moment at its present price until its known end. That is its time
limit as it was at its start; without one it is the end of the month (UTC). What waits, and workers without jobs, are no
part of what is to come.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.costs import MAX_SPENDING_ROWS, ReadSpending, Spending, SpendingRow

from clusterra_events.ledger.account import Line, Rate, rates_at
from clusterra_events.ledger.charge import microseconds
from clusterra_events.ledger.facts import Run, WorkerFacts
from clusterra_events.ledger.statements import Statements, utc_day

FRESH_SECONDS = 2.0
"""How long the sums of a cluster are used again: a console asks for them every few seconds."""

MAX_RUN_DAYS = 62
"""For how many days back a running job's cost counts in its pending bill."""


class Payer(NamedTuple):
    """Whose jobs cost something. The overhead of workers has `OVERHEAD`."""

    uid: int | None
    user: str = ""
    account: str = ""


OVERHEAD = Payer(None)


@dataclass(slots=True)
class Amount:
    """A sum in micro-USD. It is known as soon as one part of it is."""

    known: int = 0
    parts: int = 0
    unknown_parts: int = 0

    def add(self, micro_usd: int | None) -> None:
        """Add a part; None is one that is not known."""
        self.known += micro_usd or 0
        self.parts += 1
        self.unknown_parts += micro_usd is None

    def join(self, other: "Amount") -> None:
        """Add another sum."""
        self.known += other.known
        self.parts += other.parts
        self.unknown_parts += other.unknown_parts

    @property
    def micro_usd(self) -> int | None:
        """The sum; None if no part of it is known, 0 if there is none."""
        return None if self.parts and self.parts == self.unknown_parts else self.known


@dataclass(slots=True)
class Sums:
    """What some jobs, or the overhead, cost."""

    running: set[str] = field(default_factory=set)
    rate: Amount = field(default_factory=Amount)
    pending: Amount = field(default_factory=Amount)
    month: Amount = field(default_factory=Amount)
    ahead: Amount = field(default_factory=Amount)
    """What runs now, from this moment until its known end or that of the month."""
    stale: bool = False
    unknown: bool = False

    def join(self, other: "Sums") -> None:
        """Add those of others."""
        self.running |= other.running
        for mine, theirs in zip(self._amounts(), other._amounts(), strict=True):
            mine.join(theirs)
        self.stale |= other.stale
        self.unknown |= other.unknown

    @property
    def forecast(self) -> int | None:
        """The month to date and what is ahead; None while one of them is not known."""
        month, ahead = self.month.micro_usd, self.ahead.micro_usd
        return None if month is None or ahead is None else month + ahead

    def _amounts(self) -> tuple[Amount, Amount, Amount, Amount]:
        return self.rate, self.pending, self.month, self.ahead


class ClusterSums(NamedTuple):
    """The sums of all payers of a cluster at a moment."""

    as_of: datetime
    by_payer: Mapping[Payer, Sums]


class SpendingReader:
    """The handler of `ledger.<tenant>.<cluster>.spending`. Raises StoreUnavailable."""

    def __init__(self, statements: Statements, clock: Callable[[], float] = time.monotonic) -> None:
        self._statements = statements
        self._clock = clock
        self._known: dict[ClusterRef, tuple[float, ClusterSums]] = {}
        self._locks: dict[ClusterRef, asyncio.Lock] = {}

    async def read(self, subject: Subject, request: ReadSpending) -> Spending:
        """What the viewer sees of a cluster's spending."""
        sums = await self.of_cluster(subject.ref)
        rows = _rows(sums, request)
        return Spending(rows=rows[:MAX_SPENDING_ROWS], as_of=sums.as_of, cut=len(rows) > MAX_SPENDING_ROWS)

    async def of_cluster(self, ref: ClusterRef) -> ClusterSums:
        """The sums of a cluster, at most FRESH_SECONDS old."""
        async with self._locks.setdefault(ref, asyncio.Lock()):
            known = self._known.get(ref)
            if known is None or self._clock() - known[0] > FRESH_SECONDS:
                known = self._known[ref] = self._clock(), await self._read(ref, now())
            return known[1]

    async def _read(self, ref: ClusterRef, as_of: datetime) -> ClusterSums:
        today = utc_day(as_of)
        facts = await self._statements.open_facts(ref)
        rates = await asyncio.to_thread(_rates, facts.values(), as_of)
        began = [utc_day(rate.run.started_at) for rate in rates if rate.run is not None]
        first = max(min([today.replace(day=1), *began]), today - timedelta(days=MAX_RUN_DAYS))
        lines = await self._statements.lines(ref, first, today, as_of)
        return ClusterSums(as_of, await asyncio.to_thread(sums_of, rates, lines, as_of))


def sums_of(rates: Iterable[Rate], lines: Iterable[Line], as_of: datetime) -> dict[Payer, Sums]:
    """Sum up the present rates, and lines: all of this month, and those of running jobs before it."""
    found: dict[Payer, Sums] = {}
    running: set[tuple[str, str]] = set()
    month = utc_day(as_of).replace(day=1)
    for rate in rates:
        _add_rate(found.setdefault(_payer(rate.run), Sums()), rate, as_of)
        if rate.run is not None:
            running.add((rate.run.job_id, rate.run.run_id))
    for line in lines:
        runs = (line.job_id, line.run) in running
        if not runs and line.day < month:
            continue
        payer = Payer(line.uid, line.user, line.account) if line.purpose == "job" else OVERHEAD
        sums = found.setdefault(payer, Sums())
        sums.unknown |= line.unknown
        if runs:
            sums.pending.add(line.micro_usd)
        if line.day >= month:
            sums.month.add(line.micro_usd)
    return found


def _rates(open_facts: Iterable[Iterable[WorkerFacts]], as_of: datetime) -> list[Rate]:
    return [rate for facts in open_facts for rate in rates_at(facts, microseconds(as_of))]


def month_end(at: datetime) -> datetime:
    """The first moment of the next month (UTC)."""
    first = at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (first + timedelta(days=32)).replace(day=1)


def _add_rate(sums: Sums, rate: Rate, as_of: datetime) -> None:
    sums.rate.add(rate.micro_usd_per_hour)
    sums.stale |= rate.stale
    sums.unknown |= rate.micro_usd_per_hour is None
    if rate.run is None:
        return
    sums.running.add(rate.run.job_id)
    hours = _left(rate.run, as_of) / timedelta(hours=1)
    sums.ahead.add(None if rate.micro_usd_per_hour is None else round(rate.micro_usd_per_hour * hours))


def _left(run: Run, as_of: datetime) -> timedelta:
    """For how long a run goes on this month, as far as that is known."""
    end = month_end(as_of)
    if run.time_limit_seconds is not None:
        # Compared in seconds: a limit may be beyond what a moment can be.
        left = run.time_limit_seconds - (as_of - run.started_at).total_seconds()
        return timedelta(seconds=max(0.0, min(left, (end - as_of).total_seconds())))
    return end - as_of


def _payer(run: Run | None) -> Payer:
    return OVERHEAD if run is None else Payer(run.uid, run.user, run.account)


def _rows(sums: ClusterSums, request: ReadSpending) -> tuple[SpendingRow, ...]:
    grouped: dict[Payer, Sums] = {}
    for payer, each in sums.by_payer.items():
        if payer == OVERHEAD:
            if request.viewer.only_uid is None:
                grouped.setdefault(OVERHEAD, Sums()).join(each)
        elif request.viewer.sees(payer.uid):
            key = Payer(
                payer.uid if "user" in request.by else -1,
                payer.user if "user" in request.by else "",
                payer.account if "account" in request.by else "",
            )
            grouped.setdefault(key, Sums()).join(each)
    ordered = sorted(grouped.items(), key=lambda entry: (-entry[1].month.known, entry[0][1:], entry[0][0] or 0))
    return tuple(_row(payer, each, by_user="user" in request.by) for payer, each in ordered)


def _row(payer: Payer, sums: Sums, *, by_user: bool) -> SpendingRow:
    return SpendingRow(
        purpose="overhead" if payer == OVERHEAD else "job",
        user=payer.user,
        uid=payer.uid if by_user else None,
        account=payer.account,
        running_jobs=len(sums.running),
        burn_rate_micro_usd_per_hour=sums.rate.micro_usd,
        pending_bill_micro_usd=sums.pending.micro_usd,
        month_to_date_micro_usd=sums.month.micro_usd,
        forecast_micro_usd=sums.forecast,
        stale=sums.stale,
        unknown=sums.unknown,
    )
