"""`usage.<tenant>`: what running jobs cost now, as the scaler sees it."""

from typing import ClassVar

from clusterra_contracts.identity import Moment, Wire


class ReadUsage(Wire):
    """Read a user's cost over all clusters of the tenant, or with `uid=None` everybody's."""

    schema_name: ClassVar[str] = "usage.read.v1"

    uid: int | None = None


class Usage(Wire):
    """Rate of the nodes running jobs hold (their share by CPU), and the cost of those jobs since they started."""

    schema_name: ClassVar[str] = "usage.v1"

    burn_rate_usd_per_hour: float
    pending_bill_usd: float
    running_jobs: int
    as_of: Moment | None = None
    """The oldest snapshot it is made from; None when no cluster has told anything yet."""
