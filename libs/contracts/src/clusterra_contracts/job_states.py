"""The states of Slurm jobs (squeue(1), JOB STATE CODES)."""

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
"""A job is in exactly one base state."""

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
"""A flag may accompany a base state; Slurm's commands show some flags in place of the base state."""

JobState = Literal[BaseState, StateFlag]

BASE: frozenset[str] = frozenset(get_args(BaseState))
LIVE = frozenset({"PENDING", "RUNNING", "SUSPENDED"})
ENDED = BASE - LIVE | {"REVOKED"}
"""A job in one of these states writes no more output."""

FILES_NOT_OPENED = "FilesNotOpened"
"""Our reason of a job whose stdin, stdout or stderr Slurm could not open on its worker. Its script has not begun. Slurm
reports such a job as ended by the signal 53."""
DIRECTORY_NOT_ENTERED = "WorkingDirectoryNotEntered"
"""Our reason of a job whose working directory its user could not enter on its worker. Its script has not begun."""
OUT_OF_MEMORY = "OutOfMemory"
"""Slurm's reason of a job that was killed for its memory, and ours where slurmstepd has killed it."""
SUSPENDED = "Suspended"
"""Our reason of a job that is suspended, for which Slurm has none."""
