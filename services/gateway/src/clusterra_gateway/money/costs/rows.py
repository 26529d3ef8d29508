"""The query for costs, and their rows as answers: JSON, a table of our own, and one in the columns of FOCUS.

FOCUS is the FinOps Open Cost and Usage Specification, here 1.1.
"""

import json
import re
from datetime import date, timedelta
from typing import Annotated, Literal

from clusterra_contracts.identity import ClusterRef, Moment
from clusterra_contracts.rpc.costs import CostDimension, CostPurpose, CostRow
from pydantic import BeforeValidator, Field

from clusterra_gateway.http.answers.responses import CURRENCY, Money, ResponseBody, decimal, money
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
    """What rows are grouped by: some of `day`, `user`, `account`, `template`, `job`, `worker`, `shape`.

    Without it, `job`.
    """
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
    template: str | None = None
    """The template that jobs were made from. An earlier release does not tell it."""
    job_id: str | None
    name: str | None
    worker: str | None
    shape: str | None
    cost: Money | None
    """Null: no price is known."""
    hours: float
    """How long jobs ran, or workers were booting or partly idle. Jobs that share a worker each count in full."""
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
    named = ("user", "account", "template", "job_id", "name", "worker", "shape")
    given = {name: getattr(row, name) or None for name in named}
    return CostEntry.showing(row, cost=money(row.micro_usd), hours=row.seconds / 3600, **given)


COLUMNS = (*(name for name in CostEntry.model_fields if name != "cost"), "cost", "currency")

FOCUS_BY: tuple[CostDimension, ...] = ("day", "job", "worker")
"""A row of FOCUS is a charge of one day for one resource."""
FOCUS_COLUMNS = (
    *("BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd"),
    *("BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency"),
    *("ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity", "ConsumedUnit", "ContractedCost", "EffectiveCost"),
    *("InvoiceIssuerName", "ListCost", "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName"),
    *("ResourceId", "ResourceName", "ResourceType", "ServiceCategory", "ServiceName", "SkuId", "SubAccountId"),
    *("SubAccountName", "Tags", "x_Stale", "x_Unknown"),
)
PROVIDER = "Clusterra"


def own_cells(row: CostRow) -> tuple[str, ...]:
    """A row of our own table. An unknown amount is empty."""
    told = {
        **{name: getattr(row, name, "") for name in COLUMNS},
        "hours": f"{row.seconds / 3600:.6f}",
        "cost": "" if row.micro_usd is None else decimal(row.micro_usd),
        "currency": CURRENCY,
        "stale": str(row.stale).lower(),
        "unknown": str(row.unknown).lower(),
    }
    return tuple("" if told[name] is None else str(told[name]) for name in COLUMNS)


def focus_cells(ref: ClusterRef, row: CostRow) -> tuple[str, ...]:
    """A row in the columns of FOCUS."""
    assert row.day is not None  # noqa: S101 - FOCUS_BY asks for it
    cost = "" if row.micro_usd is None else decimal(row.micro_usd)
    hours = f"{row.seconds / 3600:.6f}"
    is_job = row.purpose == "job"
    month = row.day.replace(day=1)
    told = {
        **dict.fromkeys(("BilledCost", "ContractedCost", "EffectiveCost", "ListCost"), cost),
        **dict.fromkeys(("ConsumedQuantity", "PricingQuantity"), hours),
        **dict.fromkeys(("ConsumedUnit", "PricingUnit"), "Hours"),
        **dict.fromkeys(("ProviderName", "PublisherName", "InvoiceIssuerName"), PROVIDER),
        **dict.fromkeys(("BillingAccountId", "BillingAccountName"), ref.tenant),
        **dict.fromkeys(("SubAccountId", "SubAccountName"), row.account),
        "BillingCurrency": CURRENCY,
        "BillingPeriodStart": _midnight(month),
        "BillingPeriodEnd": _midnight((month + timedelta(days=32)).replace(day=1)),
        "ChargePeriodStart": _midnight(row.day),
        "ChargePeriodEnd": _midnight(row.day + timedelta(days=1)),
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
        "ChargeDescription": f"job {row.job_id} on {row.worker}" if is_job else f"{row.purpose} time of {row.worker}",
        "ResourceId": f"{ref.key}/jobs/{row.job_id}" if is_job else f"{ref.key}/workers/{row.worker}",
        "ResourceName": row.name if is_job else row.worker,
        "ResourceType": "Job" if is_job else "Worker",
        "ServiceCategory": "Compute",
        "ServiceName": "Slurm",
        "SkuId": row.shape,
        "Tags": json.dumps({"cluster": ref.cluster, "purpose": row.purpose, "user": row.user}),
        "x_Stale": str(row.stale).lower(),
        "x_Unknown": str(row.unknown).lower(),
    }
    return tuple(told.get(name, "") for name in FOCUS_COLUMNS)


def _midnight(day: date) -> str:
    return f"{day.isoformat()}T00:00:00Z"
