"""What a job would cost, on which workers, and when it would start, before it is submitted.

`slurm.<tenant>.<cluster>.prepare` checks a submission and translates it into what it would ask of the planner;
`scaler.<tenant>.<cluster>.estimate` decides with it as if it waited last in the queue. Neither makes a job.
"""

import operator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from clusterra_contracts.alternatives import Alternatives
from clusterra_contracts.identity import JobId, Moment, ShapeName, SlurmUser, Wire
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.rpc.job_fields import FurtherFields
from clusterra_contracts.rpc.slurm import MAX_COMPONENTS, Components, JobDescription
from clusterra_contracts.rpc.why import Cause, PlaceKind

ESTIMATED_JOB_ID: JobId = "9999999999"
"""The id that stands for a job that does not exist. Slurm's own ids are smaller: they end at 67,108,863."""


class Prepare(Wire):
    """Check a submission and translate it, as `Submit` does before it asks Slurm for a job."""

    schema_name: ClassVar[str] = "slurm.prepare.v2"

    user: SlurmUser
    email: Annotated[str, Field(exclude_if=operator.not_)] = ""
    script: Annotated[str, Field(min_length=1)]
    job: JobDescription
    further: FurtherFields = FurtherFields()
    components: Components = ()


WaitingComponents = Annotated[tuple[PendingJobs, ...], Field(max_length=MAX_COMPONENTS - 1)]
"""The components of a heterogeneous job after the first, as a queue snapshot would show them."""


class Prepared(Wire):
    """A submission that would be sent to Slurm, as a queue snapshot would show its job."""

    schema_name: ClassVar[str] = "slurm.prepared.v2"

    job: PendingJobs
    tasks: Annotated[int, Field(ge=1)] = 1
    """The number of tasks of an array; 1 for any other job."""
    array: bool = False
    """Whether it is an array, also of one task. False from a release that does not tell."""
    warnings: tuple[str, ...] = ()
    components: WaitingComponents = ()


class EstimateJob(Wire):
    """Estimate a job that `prepare` translated."""

    schema_name: ClassVar[str] = "estimate.job.v2"

    job: PendingJobs
    tasks: Annotated[int, Field(ge=1)] = 1
    components: WaitingComponents = ()


Wait = Literal["nothing", "boot", "jobs", "quota", "shape", "paused", "cause", "unknown"]
"""What the job, or the last of its tasks that may run at once, would wait for. `nothing`: present workers have
capacity. `boot`: workers that boot or would be bought. `jobs`: capacity on busy workers. `quota`: the cluster's limit
on workers or on USD per hour. `shape`: no worker that can be bought now would do. `paused`: the cluster buys none.
`cause`: what `cause` names, whatever the workers. `unknown`: the scaler cannot tell."""


class EstimatedWorkers(Wire):
    """Workers of one shape that the job would use."""

    kind: PlaceKind
    shape: ShapeName | None = None
    """None for nodes that are none of our workers."""
    count: Annotated[int, Field(ge=1)] | None = None
    """How many; of the kind `new` how many would be bought because of the job. None for workers that have been ordered
    already and share their capacity with other jobs."""


class Estimate(Wire):
    """What the planner would do for the job now, as of one snapshot of the queue."""

    schema_name: ClassVar[str] = "estimate.v2"

    wait: Wait
    cause: Cause | None = None
    """As in an explanation; None for a job that would wait for workers alone, or for nothing."""
    text: str
    """The answer for people to read."""
    workers: tuple[EstimatedWorkers, ...] = ()
    """The workers of the tasks that may run at once, 20 kinds at most. While the job would get none, those that one
    task would get without the quota."""
    nodes: Annotated[int, Field(ge=1)] = 1
    """The number of nodes of the job with all its components, or of one task."""
    expected_start: Moment | None = None
    """When the job, or the first of its tasks, should start; None when that is unknown."""
    expected_last_start: Moment | None = None
    """When the last of its tasks should start; None also where tasks would wait for others."""
    usd_per_hour: float | None = None
    """The cost of the job with all its components, or of one task, while it runs; None where no worker would do, or
    has no known price."""
    alternatives: Alternatives = ()
    """The shapes, compared for the job or one task at the present prices, limits and failures."""
    limit_seconds: float | None = None
    """The time limit, of several components the longest; None without one."""
    tasks: Annotated[int, Field(ge=1)] = 1
    shadow: bool = False
    """Whether the scaler is in shadow mode: it would decide so and buy nothing."""
    snapshot_generation: int
    as_of: Moment
    """When the read of the queue began."""
