"""What a user's, or all users', jobs cost now, this month and probably by its end, over all clusters of a tenant."""

import asyncio
import calendar
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from clusterra_contracts.identity import ClusterRef, TenantRef, now
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.usage import ReadUsage, Usage

from clusterra_events.ledger.account import rates_at
from clusterra_events.ledger.charge import microseconds
from clusterra_events.ledger.statements import Statements, utc_day

FRESH_SECONDS = 2.0
"""How long the sums of a cluster are used again: a console asks for them every few seconds."""
TREND_DAYS = 7
"""The forecast goes on as the last seven days were."""


@dataclass(slots=True)
class Spending:
    """What one user's jobs cost, in micro-USD."""

    running: set[str] = field(default_factory=set)
    """The running jobs, and how much they cost per hour and so far."""
    rate: int = 0
    pending: int = 0
    month: int = 0
    trend: int = 0
    """The cost of the last TREND_DAYS days before this one."""
    stale: bool = False
    unknown: bool = False


@dataclass(slots=True)
class _Sums:
    """The spending of all users of a cluster at a moment."""

    as_of: datetime
    read: float
    by_uid: dict[int, Spending]


class UsageReader:
    """The handler of `usage.<tenant>`. Raises StoreUnavailable."""

    def __init__(
        self,
        statements: Statements,
        clusters: Mapping[ClusterRef, ClusterBinding],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._statements = statements
        self._clusters = clusters
        self._clock = clock
        self._sums: dict[ClusterRef, _Sums] = {}
        self._locks: dict[ClusterRef, asyncio.Lock] = {}

    async def read(self, tenant: TenantRef, request: ReadUsage) -> Usage:
        """The spending of one user, or of all."""
        # The registry may change meanwhile.
        bindings = [(ref, each) for ref, each in self._clusters.items() if ref.tenant == tenant.tenant]
        sums, spendings = list[_Sums](), list[Spending]()
        for ref, binding in bindings:
            of_cluster = await self._of_cluster(ref)
            own = request.uid if binding.identity_source is None else request.mapped.get(binding.identity_source)
            sums.append(of_cluster)
            spendings += [each for uid, each in of_cluster.by_uid.items() if request.uid is None or uid == own]
        rate, pending = sum(each.rate for each in spendings), sum(each.pending for each in spendings)
        month, trend = sum(each.month for each in spendings), sum(each.trend for each in spendings)
        as_of = min((each.as_of for each in sums), default=None)
        return Usage(
            burn_rate_usd_per_hour=rate / 1_000_000,
            pending_bill_usd=pending / 1_000_000,
            running_jobs=sum(len(each.running) for each in spendings),
            as_of=as_of,
            burn_rate_micro_usd_per_hour=rate,
            pending_bill_micro_usd=pending,
            month_to_date_micro_usd=month,
            forecast_micro_usd=month + trend * days_left(utc_day(as_of)) // TREND_DAYS if as_of else 0,
            stale=any(each.stale for each in spendings),
            unknown=any(each.unknown for each in spendings),
        )

    async def _of_cluster(self, ref: ClusterRef) -> _Sums:
        async with self._locks.setdefault(ref, asyncio.Lock()):
            known = self._sums.get(ref)
            if known is None or self._clock() - known.read > FRESH_SECONDS:
                known = self._sums[ref] = await self._read(ref, now())
            return known

    async def _read(self, ref: ClusterRef, as_of: datetime) -> _Sums:
        today = as_of.astimezone(UTC).date()
        month = today.replace(day=1)
        first_of_trend = today - timedelta(days=TREND_DAYS)
        by_uid: dict[int, Spending] = {}
        running: set[tuple[str, str]] = set()
        for facts in (await self._statements.open_facts(ref)).values():
            for rate in rates_at(facts, microseconds(as_of)):
                spending = by_uid.setdefault(rate.run.uid, Spending())
                spending.running.add(rate.run.job_id)
                running.add((rate.run.job_id, rate.run.run_id))
                spending.rate += rate.micro_usd_per_hour or 0
                spending.stale |= rate.stale
                spending.unknown |= rate.micro_usd_per_hour is None
        for line in await self._statements.lines(ref, min(month, first_of_trend), today, as_of):
            if line.uid is None:
                continue
            spending, amount = by_uid.setdefault(line.uid, Spending()), line.micro_usd or 0
            spending.pending += amount if (line.job_id, line.run) in running else 0
            if line.day >= month:
                spending.month += amount
                spending.unknown |= line.unknown
            spending.trend += amount if first_of_trend <= line.day < today else 0
        return _Sums(as_of, self._clock(), by_uid)


def days_left(today: date) -> int:
    """How many days of the month come after this one."""
    return calendar.monthrange(today.year, today.month)[1] - today.day
