"""`usage.<tenant>`: the current cost of running jobs, as the ledger computes it."""

from typing import ClassVar

from pydantic import Field

from clusterra_contracts.identity import Id, Moment, Wire


class ReadUsage(Wire):
    """Read the cost of a user's jobs over all clusters of the tenant; with `uid=None`, of all users."""

    schema_name: ClassVar[str] = "usage.read.v2"

    uid: int | None = None
    """Their uid on the clusters where Clusterra allocates uids."""
    mapped: dict[Id, int] = Field(default_factory=dict)
    """Identity source -> their uid on the clusters that have it. Without one, no job there is theirs."""


class Usage(Wire):
    """What running jobs cost per hour (their dominant share of their workers' price), and what they cost so far."""

    schema_name: ClassVar[str] = "usage.v2"

    burn_rate_usd_per_hour: float
    pending_bill_usd: float
    running_jobs: int
    as_of: Moment | None = None
    """Until when costs are counted; None for a tenant without clusters."""
    burn_rate_micro_usd_per_hour: int | None = None
    """As `burn_rate_usd_per_hour`, exactly; None from a release that does not tell."""
    pending_bill_micro_usd: int | None = None
    """As `pending_bill_usd`, exactly."""
    month_to_date_micro_usd: int | None = None
    """The cost of all jobs since the month began (UTC)."""
    forecast_micro_usd: int | None = None
    """The month to date, and what now runs until its known end or that of the month."""
    stale: bool = False
    """Whether the edge has not confirmed a price for 90 s. The last one counts."""
    unknown: bool = False
    """Whether the price of some worker is unknown. The amounts do not contain it."""
