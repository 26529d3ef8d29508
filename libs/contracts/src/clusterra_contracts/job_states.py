"""The states of Slurm's jobs (squeue(1), JOB STATE CODES)."""

from typing import Literal, get_args

BaseState = Literal[
    "PENDING",
    "RUNNING",
    "SUSPENDED",
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
]
"""A job is in exactly one of these."""

StateFlag = Literal[
    "COMPLETING",
    "CONFIGURING",
    "REQUEUED",
    "REQUEUE_HOLD",
    "RESIZING",
    "SIGNALING",
    "STAGE_OUT",
    "STOPPED",
    "REVOKED",
    "SPECIAL_EXIT",
]
"""May stand beside a base state, and Slurm's commands show some in its place."""

JobState = Literal[BaseState, StateFlag]

BASE: frozenset[str] = frozenset(get_args(BaseState))
LIVE = frozenset({"PENDING", "RUNNING", "SUSPENDED"})
ENDED = BASE - LIVE | {"REVOKED"}
"""A job in one of these writes no more."""
