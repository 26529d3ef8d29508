"""States of jobs: their names, their short names, and how a state with flags is shown."""

from collections.abc import Sequence

SHORT = {
    "PENDING": "PD",
    "RUNNING": "R",
    "SUSPENDED": "S",
    "COMPLETED": "CD",
    "CANCELLED": "CA",
    "FAILED": "F",
    "TIMEOUT": "TO",
    "NODE_FAIL": "NF",
    "PREEMPTED": "PR",
    "BOOT_FAIL": "BF",
    "DEADLINE": "DL",
    "OUT_OF_MEMORY": "OOM",
}
"""The base states in Slurm's order, of which a job has one."""
SHORT_FLAGS = {
    "COMPLETING": "CG",
    "STAGE_OUT": "SO",
    "CONFIGURING": "CF",
    "RESIZING": "RS",
    "REQUEUED": "RQ",
    "REQUEUE_FED": "RF",
    "REQUEUE_HOLD": "RH",
    "SPECIAL_EXIT": "SE",
    "STOPPED": "ST",
    "REVOKED": "RV",
    "RESV_DEL_HOLD": "RD",
    "SIGNALING": "SI",
}
"""The flags, the first of which is shown in place of the base state."""
IN_QUEUE = frozenset({"PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "STAGE_OUT", "SIGNALING"})
"""What squeue shows without --states."""
ENDED = frozenset(SHORT) - {"PENDING", "RUNNING", "SUSPENDED"}
LISTED = (
    *("pending", "running", "suspended", "completed", "cancelled", "failed", "timeout", "node_fail", "preempted"),
    *("boot_fail", "deadline", "out_of_memory", "completing", "configuring", "expediting", "resizing"),
    *("resv_del_hold", "requeued", "requeue_fed", "requeue_hold", "revoked", "signaling", "special_exit"),
    *("stage_out", "stopped"),
)
"""The names as commands list them."""
_LONG = {short: long for long, short in (SHORT | SHORT_FLAGS).items()}


def shown(states: Sequence[str]) -> str:
    """The one name of a state with its flags, such as `COMPLETING` for `RUNNING` with that flag."""
    return next((flag for flag in SHORT_FLAGS if flag in states), base(states))


def base(states: Sequence[str]) -> str:
    """The state without its flags. PENDING where none is known."""
    return next((state for state in SHORT if state in states), "PENDING")


def short(name: str) -> str:
    """The short form of a name."""
    return SHORT.get(name) or SHORT_FLAGS.get(name) or name


def named(text: str) -> str | None:
    """The state that a person means by its name or its short name; None for no state."""
    upper = text.strip().upper()
    if upper in SHORT or upper in SHORT_FLAGS:
        return upper
    return _LONG.get(upper)
