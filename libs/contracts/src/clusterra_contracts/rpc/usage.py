"""`usage.<tenant>`: the current cost of running jobs, as the scaler computes it."""

from typing import ClassVar

from clusterra_contracts.identity import Moment, Wire


class ReadUsage(Wire):
    """Read the cost of a user's jobs over all clusters of the tenant; with `uid=None`, of all users."""

    schema_name: ClassVar[str] = "usage.read.v1"

    uid: int | None = None


class Usage(Wire):
    """The hourly price of the nodes that running jobs hold (their share by CPU), and their cost since they started."""

    schema_name: ClassVar[str] = "usage.v1"

    burn_rate_usd_per_hour: float
    pending_bill_usd: float
    running_jobs: int
    as_of: Moment | None = None
    """The time of the oldest snapshot that was used; None before the first snapshot of any cluster."""
