"""How a job has ended, as slurmctld and slurmdbd report it: both write numbers as signals that are none."""

from clusterra_contracts.job_states import DIRECTORY_NOT_ENTERED, FILES_NOT_OPENED, OUT_OF_MEMORY

LOST = frozenset({"NODE_FAIL", "BOOT_FAIL"})
"""The states of jobs whose node failed. slurmctld reports them with the signal 1, slurmdbd with the exit code 1."""
_NOT_BEGUN = {53: FILES_NOT_OPENED, 54: DIRECTORY_NOT_ENTERED}
"""Reasons by the signals of jobs whose script has not begun. slurmstepd reports the first without sending it, the
worker's task-prolog sends the second (images/slurm/task-prolog)."""
_BY_STATE = {
    "TIMEOUT": "TimeLimit",
    "DEADLINE": "DeadLine",
    "NODE_FAIL": "NodeDown",
    "OUT_OF_MEMORY": OUT_OF_MEMORY,
}
"""Slurm's reasons by the states that have one of their own."""
_OF_FAILURES = frozenset({"NonZeroExitCode", "RaisedSignal", "JobLaunchFailure", "SystemFailure", "InactiveLimit"})
_OF_CANCELS = frozenset({"DependencyNeverSatisfied", "BadConstraints", "PartitionDown", "ReservationDeleted"})
"""Those of Slurm's reasons that tell why it failed or cancelled a job. Others tell why the job waited."""


def reason(state: str, code: int | None, signal: int | None, told: str) -> str:
    """Return Slurm's reason of a job that has ended in a state; empty for none.

    `told` is what Slurm told: slurmdbd tells only why the job waited last, and so does slurmctld of some.
    """
    if state in _BY_STATE:
        return _BY_STATE[state]
    word = told.partition(":")[0]
    if state == "FAILED":
        derived = "RaisedSignal" if signal else "NonZeroExitCode" if code else ""
        return _NOT_BEGUN.get(signal or 0) or (told if word in _OF_FAILURES else derived)
    return told if state == "CANCELLED" and word in _OF_CANCELS else ""


def signal(state: str, number: int | None) -> int | None:
    """Return the signal that ended a job; None where the number that Slurm reports was no signal."""
    return None if state in LOST or state == "OUT_OF_MEMORY" or number in _NOT_BEGUN else number or None
