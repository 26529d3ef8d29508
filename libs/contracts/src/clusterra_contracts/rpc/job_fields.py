"""Fields of a job that `rpc.slurm.JobDescription` lacks: what a script's directives set, and a request may name.

A release refuses a description with fields that it does not know, so they travel beside it. A proxy of the release
before this one ignores them there.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictBool

from clusterra_contracts.identity import Wire


def _no_boolean(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a number is wanted, not true or false")  # noqa: TRY004 - pydantic reads ValueError
    return value


NO_BOOLEAN = BeforeValidator(_no_boolean)
"""Refuses true and false, which pydantic would take for 1 and 0."""


def _plain_number(value: Any) -> Any:
    """Reads Slurm's `{"set": true, "number": N}` as N, and "not set" as None."""
    if isinstance(value, dict) and "number" in value:
        return value["number"] if value.get("set", True) and not value.get("infinite", False) else None
    return value


Number = Annotated[Annotated[int, Field(ge=0)] | None, NO_BOOLEAN, BeforeValidator(_plain_number)]

JobFlag = Literal[
    "KILL_INVALID_DEPENDENCY",
    "NO_KILL_INVALID_DEPENDENCY",
    "GRES_BINDING_ENFORCED",
    "GRES_BINDING_DISABLED",
    "SPREAD_JOB",
    "PREFER_MINIMUM_NODE_COUNT",
]
"""slurmrestd's names of the flags that a job can ask for. Slurm sets the others itself."""


def _is_left_out(value: object) -> bool:
    return value is None


MailFlag = Literal[
    "BEGIN",
    "END",
    "FAIL",
    "REQUEUE",
    "TIME=100%",
    "TIME=90%",
    "TIME=80%",
    "TIME=50%",
    "STAGE_OUT",
    "ARRAY_TASKS",
    "INVALID_DEPENDENCY",
]
"""slurmrestd's names of sbatch's mail types."""


class FurtherFields(Wire):
    """What a job may have besides its description. A field of None leaves the choice to Slurm."""

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
    contiguous: StrictBool | None = None
    overcommit: StrictBool | None = None
    """Whether tasks need no CPU of their own."""
    prefer: str | None = None
    """Features that are preferred and not required."""
    oom_kill_step: Number = None
    minimum_cpus_per_node: Number = None
    maximum_cpus: Number = None
    sockets_per_node: Number = None
    tasks_per_core: Number = None
    tasks_per_socket: Number = None
    ntasks_per_tres: Number = None
    """Tasks for each GPU."""
    required_switches: Number = None
    """The most switches between the job's nodes. Workers have no network topology, so any nodes do."""
    wait_for_switch: Number = None
    """How long the job may wait for so few switches, in seconds."""
    wait_all_nodes: StrictBool | None = None
    """Whether the script starts only when all nodes are ready."""
    container: str | None = None
    """The absolute path of an OCI bundle in which the script runs."""
    mail_type: Annotated[tuple[MailFlag, ...] | None, Field(exclude_if=_is_left_out)] = None
    """What the job's owner gets a mail about: `["END", "FAIL"]`."""
    mail_user: Annotated[str | None, Field(max_length=1000, exclude_if=_is_left_out)] = None
    """Only the owner's own address, or their user name: mails go nowhere else."""
