"""Rows of costs as tables: our own columns, and those of FOCUS (FinOps Open Cost and Usage Specification 1.1)."""

import json
from datetime import date, timedelta

from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.costs import CostDimension, CostPage, CostRow

from clusterra_gateway.http.answers.csv_lines import csv_lines
from clusterra_gateway.http.answers.money import CURRENCY, decimal
from clusterra_gateway.money.costs.models import CostEntry

COLUMNS = (*(name for name in CostEntry.model_fields if name != "cost"), "cost", "currency")

FOCUS_BY: tuple[CostDimension, ...] = ("day", "job", "worker")
"""A row of FOCUS is a charge of one day for one resource."""
FOCUS_COLUMNS = (
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "SkuId",
    "SubAccountId",
    "SubAccountName",
    "Tags",
    "x_Stale",
    "x_Unknown",
)
PROVIDER = "Clusterra"


def csv_header() -> bytes:
    """The first line of our own table."""
    return csv_lines([COLUMNS])


def csv_rows(page: CostPage) -> bytes:
    """One line for each row. An unknown amount is empty."""
    return csv_lines(_own(row) for row in page.rows)


def focus_header() -> bytes:
    """The first line of a table in the columns of FOCUS."""
    return csv_lines([FOCUS_COLUMNS])


def focus_rows(ref: ClusterRef, page: CostPage) -> bytes:
    """One line for each row."""
    return csv_lines(_focus(ref, row) for row in page.rows)


def _own(row: CostRow) -> tuple[str, ...]:
    told = {
        **{name: getattr(row, name, "") for name in COLUMNS},
        "hours": f"{row.seconds / 3600:.6f}",
        "cost": "" if row.micro_usd is None else decimal(row.micro_usd),
        "currency": CURRENCY,
        "stale": str(row.stale).lower(),
        "unknown": str(row.unknown).lower(),
    }
    return tuple("" if told[name] is None else str(told[name]) for name in COLUMNS)


def _focus(ref: ClusterRef, row: CostRow) -> tuple[str, ...]:
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
