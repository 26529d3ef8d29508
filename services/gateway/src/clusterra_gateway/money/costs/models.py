"""The query and the answer of the costs of a cluster."""

import re
from datetime import date
from typing import Annotated, Literal

from clusterra_contracts.identity import Moment
from clusterra_contracts.rpc.costs import CostDimension, CostPurpose, CostRow
from pydantic import BeforeValidator, Field

from clusterra_gateway.http.answers.money import Money, money
from clusterra_gateway.http.answers.responses import ResponseBody
from clusterra_gateway.http.requests.parameters import CommaSeparated, Query

Format = Literal["json", "csv", "focus"]

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def _written(value: object) -> object:
    if isinstance(value, str) and not _DAY.fullmatch(value):
        raise ValueError("a day is written like 2026-11-23")
    return value


Day = Annotated[date, BeforeValidator(_written)]
"""For a query parameter that is a day in UTC."""


class CostsQuery(Query):
    """Which costs, and in which form."""

    first: Annotated[Day | None, Field(alias="from")] = None
    """The first day (UTC). Without it, the first of this month."""
    end: Annotated[Day | None, Field(alias="to")] = None
    """The day after the last one. Without it, tomorrow."""
    by: Annotated[tuple[CostDimension, ...] | None, CommaSeparated] = None
    """What rows are grouped by: some of `day`, `user`, `account`, `job`, `worker`, `shape`. Without it, `job`."""
    format: Format | None = None
    """Without it the header `Accept` decides: `text/csv` is `csv`, all else `json`."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    """Of rows in one answer of `json`. The other forms have all rows."""
    cursor: str | None = None


class CostEntry(ResponseBody):
    """What something cost. Fields of dimensions that were not asked for are null."""

    purpose: CostPurpose
    day: date | None
    user: str | None
    account: str | None
    job_id: str | None
    name: str | None
    worker: str | None
    shape: str | None
    cost: Money | None
    """Null: no price is known."""
    hours: float
    """For how long, summed over all workers."""
    stale: bool
    unknown: bool


class CostReport(ResponseBody):
    """Rows of costs, and the sums over all pages. Shares and overhead are the bill, exactly."""

    cluster_id: str
    first: date
    last: date
    """Inclusive."""
    rows: tuple[CostEntry, ...]
    shares: Money
    """What jobs pay."""
    overhead: Money
    """Workers that boot or are idle. Only those who see everybody's jobs see it."""
    bill: Money
    as_of: Moment
    """Until when running jobs and living workers are counted."""
    stale: bool
    """Whether the edge had not confirmed a price for a part of the time."""
    unknown: bool
    """Whether no price is known for a part of the time. The amounts do not contain it."""
    cursor: str | None


def entry_of(row: CostRow) -> CostEntry:
    """A row as answers have it."""
    return CostEntry(
        purpose=row.purpose,
        day=row.day,
        user=row.user or None,
        account=row.account or None,
        job_id=row.job_id or None,
        name=row.name or None,
        worker=row.worker or None,
        shape=row.shape or None,
        cost=money(row.micro_usd),
        hours=row.seconds / 3600,
        stale=row.stale,
        unknown=row.unknown,
    )
