"""`slurm.<tenant>.<cluster>.steps`: the job steps that `srun` started, as slurmdbd has them."""

from typing import Annotated, ClassVar

from pydantic import Field

from clusterra_contracts.identity import JobId, Moment, Wire
from clusterra_contracts.rpc.slurm import Viewer

MAX_STEP_RUNS = 1000
MAX_STEPS = 1000
"""The most steps in one answer, over all runs."""


class ReadSteps(Wire):
    """Read the steps of all runs of a job or an array task, or of all tasks of an array."""

    schema_name: ClassVar[str] = "slurm.steps.v1"

    viewer: Viewer
    job_id: JobId


class Allocation(Wire):
    """What a run or a step has over all its nodes; 0 where Slurm does not tell."""

    cpus: Annotated[int, Field(ge=0)] = 0
    memory_mib: Annotated[int, Field(ge=0)] = 0
    gpus: Annotated[int, Field(ge=0)] = 0
    nodes: Annotated[int, Field(ge=0)] = 0


class JobStep(Wire):
    """A step of a run."""

    step_id: str
    """Its number within the job, such as `0`; for a component of a heterogeneous step `0+1`."""
    name: str
    state: str
    started_at: Moment
    ended_at: Moment | None
    """None: it runs."""
    allocation: Allocation


class RunSteps(Wire):
    """A run of a job with its steps, in the order of their starts.

    The batch script and Slurm's own steps (`batch`, `extern`, `interactive`) are none of them.
    """

    job_id: JobId
    started_at: Moment
    ended_at: Moment | None
    allocation: Allocation
    steps: tuple[JobStep, ...]


class JobSteps(Wire):
    """The runs of a job that slurmdbd knows; none before its start."""

    schema_name: ClassVar[str] = "slurm.job-steps.v1"

    runs: Annotated[tuple[RunSteps, ...], Field(max_length=MAX_STEP_RUNS)]
    complete: bool = True
    """Whether all steps are here: at most MAX_STEPS are, and none that cannot be read."""
