"""`ledger.<tenant>.<cluster>.<operation>`: what jobs and workers cost, as the ledger has it.

Amounts are whole micro-USD (millionths of a US dollar), so that they add up exactly. An amount of None is unknown.
"""

from datetime import date
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from clusterra_contracts.identity import JobId, Moment, Wire
from clusterra_contracts.rpc.slurm import Viewer

CostDimension = Literal["day", "user", "account", "template", "job", "worker", "shape"]
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
    template: str = ""
    """That of `Job`."""
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

    schema_name: ClassVar[str] = "ledger.cost-page.v2"

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


MAX_RUN_COSTS = 1000


class ReadRunCosts(Wire):
    """Read what each run of a job, an array task or all tasks of an array cost."""

    schema_name: ClassVar[str] = "ledger.runs.v1"

    viewer: Viewer
    job_id: JobId


class RunCost(Wire):
    """What one run cost. `micro_usd` is None while nothing of it is known."""

    job_id: JobId
    started_at: Moment
    micro_usd: int | None


class RunCosts(Wire):
    """What a job cost, and those runs of it that have started, MAX_RUN_COSTS at most.

    All runs together cost what the job does.
    """

    schema_name: ClassVar[str] = "ledger.run-costs.v1"

    job: JobCost
    runs: Annotated[tuple[RunCost, ...], Field(max_length=MAX_RUN_COSTS)]


SpendingDimension = Literal["user", "account"]
"""What sums of spending are told apart by."""

MAX_SPENDING_ROWS = 4000


class ReadSpending(Wire):
    """Read what a cluster costs now, this month, and probably by its end, in rows by the given dimensions."""

    schema_name: ClassVar[str] = "ledger.spending.v1"

    viewer: Viewer
    """Who sees only their own jobs gets the rows of these, and no overhead."""
    by: tuple[SpendingDimension, ...] = ("user",)


class SpendingRow(Wire):
    """What jobs, or the overhead of workers, cost. An amount is None while nothing of it is known."""

    purpose: Literal["job", "overhead"]
    user: str = ""
    uid: int | None = None
    account: str = ""
    running_jobs: int = 0
    burn_rate_micro_usd_per_hour: int | None
    """What runs now costs in an hour."""
    pending_bill_micro_usd: int | None
    """What the running jobs cost so far."""
    month_to_date_micro_usd: int | None
    forecast_micro_usd: int | None
    """The month to date, and what now runs until its known end or that of the month (UTC)."""
    stale: bool = False
    """Whether the edge has not confirmed a price for 90 s."""
    unknown: bool = False
    """Whether some price is unknown. The amounts do not contain it."""


class Spending(Wire):
    """The rows of a cluster, those with the highest month to date first."""

    schema_name: ClassVar[str] = "ledger.spendings.v1"

    rows: tuple[SpendingRow, ...]
    as_of: Moment
    cut: bool = False
    """Whether there were more than MAX_SPENDING_ROWS."""


MAX_COST_JOBS = 500


class ReadJobCosts(Wire):
    """Read what several jobs and array tasks cost so far: for the proxy, which notes it in Slurm, and for lists."""

    schema_name: ClassVar[str] = "ledger.jobs.v2"

    job_ids: Annotated[tuple[JobId, ...], Field(max_length=MAX_COST_JOBS)]
    since: date
    """No run of these jobs began before this day (UTC)."""
    viewer: Viewer | None = None
    """Who sees only their own jobs gets the costs of these. None: the proxy, which sees all."""


class CostOfJob(Wire):
    """What one job or task cost, with all its runs. `micro_usd` is None while nothing of it is known."""

    job_id: JobId
    micro_usd: int | None
    running: bool
    """Whether the ledger knows no end of its last run."""
    stale: bool = False
    unknown: bool = False


class JobCosts(Wire):
    """Those of the jobs that the ledger knows runs of."""

    schema_name: ClassVar[str] = "ledger.job-costs.v2"

    costs: tuple[CostOfJob, ...]
    incomplete: bool = False
    """Whether some worker's costs could not be computed. The amounts may lack a part."""
