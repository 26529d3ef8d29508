"""Requests of `rpc.slurm` that change jobs after their submit: hold, release, requeue, signal, update."""

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, StrictBool, StringConstraints

from clusterra_contracts.identity import Wire
from clusterra_contracts.rpc.job_fields import NO_BOOLEAN, Number
from clusterra_contracts.rpc.slurm import Viewer

MAX_SELECTION_CHARACTERS = 512

JobSelection = Annotated[
    str,
    StringConstraints(
        pattern=r"^[1-9][0-9]{0,9}(_([0-9]{1,7}|\[[0-9]{1,7}(-[0-9]{1,7}(:[0-9]{1,7})?)?"
        r"(,[0-9]{1,7}(-[0-9]{1,7}(:[0-9]{1,7})?)?)*\]))?$",
        max_length=MAX_SELECTION_CHARACTERS,
    ),
]
"""A job or a whole array (`42`), a task (`42_7`), or tasks in Slurm's notation (`42_[1-5,9]`, `42_[0-98:2]`)."""

Signal = Literal[
    "HUP", "INT", "QUIT", "USR1", "USR2", "TERM", "ALRM", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "KILL"
]
"""The signals that Slurm knows by name. KILL ends a job, and Slurm calls that a cancel."""


class Hold(Wire):
    """Keep a pending job from starting."""

    action: Literal["hold"] = "hold"


class Release(Wire):
    """Let a held job start."""

    action: Literal["release"] = "release"


class Requeue(Wire):
    """End a running job and queue it again, or queue a job again that has ended and that Slurm still knows."""

    action: Literal["requeue"] = "requeue"
    hold: bool = False
    """Whether the job is held until it is released."""


class SendSignal(Wire):
    """Send a signal to the processes of a running job."""

    action: Literal["signal"] = "signal"
    signal: Signal
    batch_only: bool = False
    """Whether only the batch script gets it, and not the job's steps."""


class CancelTasks(Wire):
    """Cancel the selected jobs or tasks. `rpc.slurm.Cancel` cancels a single one."""

    action: Literal["cancel"] = "cancel"


class JobChanges(Wire):
    """What of a job can be changed after its submit. What is None stays as it is; nothing is changed by none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    time_limit: Annotated[Annotated[int, Field(ge=1, le=5_256_000)] | None, NO_BOOLEAN] = None
    """Minutes. Only an administrator of Slurm may raise that of a running job."""
    nice: Annotated[Annotated[int, Field(ge=0, le=2_147_483_645)] | None, NO_BOOLEAN] = None
    """Slurm subtracts it from the job's priority."""
    dependency: Annotated[str, StringConstraints(max_length=1000)] | None = None
    """In sbatch's notation, such as `afterok:41`; empty for none."""
    partition: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    begin_time: Annotated[Annotated[int, Field(ge=0, le=4_102_444_800)] | None, NO_BOOLEAN] = None
    """Seconds since 1970."""


Text = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
Size = Annotated[Annotated[int, Field(ge=1, le=2**32 - 3)] | None, NO_BOOLEAN]


class FurtherChanges(Wire):
    """More of what can be changed. It stands beside `JobChanges`: a proxy of the release before ignores it there."""

    qos: Text | None = None
    wckey: Text | None = None
    constraints: Annotated[str, StringConstraints(max_length=4096)] | None = None
    """Features that its nodes must have; empty for none."""
    prefer: Annotated[str, StringConstraints(max_length=4096)] | None = None
    """Features that are preferred; empty for none."""
    excluded_nodes: Annotated[tuple[Text, ...], Field(max_length=1000)] | None = None
    licenses: Text | None = None
    time_minimum: Number = None
    """Minutes."""
    requeue: StrictBool | None = None
    """Whether the job is queued again when its node fails."""
    memory_per_node: Size = None
    """MiB. It takes the place of what the job asked for per CPU."""
    memory_per_cpu: Size = None
    """MiB. It takes the place of what the job asked for per node."""
    tasks: Size = None
    """The job has the CPUs of so many tasks then."""
    standard_input: Text | None = None
    standard_output: Text | None = None
    standard_error: Text | None = None


class Update(Wire):
    """Change a job's description."""

    action: Literal["update"] = "update"
    changes: JobChanges
    further: FurtherChanges = FurtherChanges()


Action = Annotated[Hold | Release | Requeue | SendSignal | CancelTasks | Update, Field(discriminator="action")]


class ChangeJob(Wire):
    """Change a job, an array or some of its tasks on behalf of the viewer: users their own, an admin the tenant's."""

    schema_name: ClassVar[str] = "slurm.change.v3"

    viewer: Viewer
    jobs: JobSelection
    change: Action
