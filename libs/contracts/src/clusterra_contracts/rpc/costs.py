"""`ledger.<tenant>.<cluster>.<operation>`: what jobs and workers cost, as the ledger has it.

Amounts are whole micro-USD (millionths of a US dollar), so that they add up exactly. An amount of None is unknown.
"""

from datetime import date
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from clusterra_contracts.identity import JobId, Moment, Wire
from clusterra_contracts.rpc.slurm import Viewer

CostDimension = Literal["day", "user", "account", "job", "worker", "shape"]
"""What rows are told apart by."""

CostPurpose = Literal["job", "boot", "idle", "unattributed"]
"""`job`: a job's share of its workers. The others are overhead: a worker until it first registers, a worker without
jobs or the part of it that no job pays, and a worker with jobs whose size nobody has told."""

MAX_COST_DAYS = 400


class ReadCosts(Wire):
    """Read the costs of some days (UTC), in rows by the given dimensions."""

    schema_name: ClassVar[str] = "ledger.costs.v1"

    viewer: Viewer
    """Who sees only their own jobs gets the rows of these, and no overhead."""
    first: date
    last: date
    """Inclusive."""
    by: tuple[CostDimension, ...] = ("job",)
    limit: Annotated[int, Field(ge=1, le=2000)] = 500
    cursor: str | None = None


class CostRow(Wire):
    """What something cost. Fields of dimensions that were not asked for are empty."""

    purpose: CostPurpose
    day: date | None = None
    user: str = ""
    uid: int | None = None
    account: str = ""
    job_id: str = ""
    name: str = ""
    worker: str = ""
    shape: str = ""
    micro_usd: int | None
    seconds: float
    """For how long, summed over all workers."""
    stale: bool = False
    """Whether the edge had not confirmed the price for a part of the time."""
    unknown: bool = False
    """Whether no price is known for a part of the time. The amount does not contain it."""


class CostPage(Wire):
    """One page of rows, and the sums over all pages. `cursor` continues after the page and is None at the end."""

    schema_name: ClassVar[str] = "ledger.cost-page.v1"

    rows: tuple[CostRow, ...]
    shares_micro_usd: int
    """What jobs pay."""
    overhead_micro_usd: int
    """The rest of the workers' bill. Shares and overhead are the bill."""
    as_of: Moment
    """Until when running jobs and living workers are counted."""
    stale: bool = False
    unknown: bool = False
    cursor: str | None = None


class ReadJobCost(Wire):
    """Read what a job, an array task or all tasks of an array cost, with all their runs."""

    schema_name: ClassVar[str] = "ledger.job.v1"

    viewer: Viewer
    job_id: JobId


class JobCost(Wire):
    """What a job cost until `as_of`."""

    schema_name: ClassVar[str] = "ledger.job-cost.v1"

    runs: int
    """How many runs the ledger knows; 0 for a job that has not started."""
    open_runs: int = 0
    """How many of them the ledger knows no end of."""
    micro_usd: int | None
    as_of: Moment
    stale: bool = False
    unknown: bool = False
