"""A job as its script describes it: with fields of slurmrestd that only directives set."""

from typing import Literal

from clusterra_contracts.rpc.slurm import JobDescription, Number

type JobFlag = Literal[
    "KILL_INVALID_DEPENDENCY",
    "NO_KILL_INVALID_DEPENDENCY",
    "GRES_BINDING_ENFORCED",
    "GRES_BINDING_DISABLED",
    "SPREAD_JOB",
    "PREFER_MINIMUM_NODE_COUNT",
]
"""slurmrestd's names of a job's flags."""


class ScriptJob(JobDescription):
    """A job with the fields that no message carries. An older proxy would refuse a submit that names them."""

    cpus_per_tres: str | None = None
    """CPUs for each GPU: `"gres/gpu:4"`."""
    memory_per_tres: str | None = None
    """MiB for each GPU: `"gres/gpu:2048"`."""
    distribution: str | None = None
    """How tasks are laid out, as in `--distribution`: `"block:cyclic"`."""
    kill_warning_signal: str | None = None
    """The signal that the job gets before its time limit: `"USR1"`."""
    kill_warning_delay: Number = None
    """How long before its time limit, in seconds."""
    kill_warning_flags: tuple[Literal["BATCH_JOB", "RESERVATION_JOB"], ...] | None = None
    """`["BATCH_JOB"]` signals the script itself, otherwise only its steps are signalled."""
    flags: tuple[JobFlag, ...] | None = None
    batch_features: str | None = None
    """The features of the node that runs the script."""
    contiguous: bool | None = None
    overcommit: bool | None = None
    """Whether tasks need no CPU of their own."""
    prefer: str | None = None
    """Features that are preferred and not required."""
    oom_kill_step: Number = None
    minimum_cpus_per_node: Number = None
    sockets_per_node: Number = None
    tasks_per_core: Number = None
    tasks_per_socket: Number = None
    ntasks_per_tres: Number = None
    """Tasks for each GPU."""
