"""Job and node records for tests of the pure parts, as slurmctld gives them at the points of a job's life."""

from datetime import UTC, datetime, timedelta
from typing import Any

from clusterra_proxy.slurmrestd.records import ExitCode, JobRecord, NodeRecord

BEGIN = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """A moment of the test's own time."""
    return BEGIN + timedelta(seconds=seconds)


def job(number: int = 1, state: str = "PENDING", **fields: Any) -> JobRecord:
    """A job of uid 5001 in a state; `submit`, `start` and `end` are seconds of the test's own time."""
    times = {f"{name}_time": at(fields.pop(name)) for name in ("submit", "start", "end") if name in fields}
    known: dict[str, Any] = {
        "submit_time": at(0),
        "name": "sim",
        "user_id": 5001,
        "partition": "main",
        "cpus": 1,
        "node_count": 1,
        "priority": 1,
        "state_reason": "None",
    }
    if state != "PENDING" and "nodes" not in fields and state != "CANCELLED":
        known |= {"nodes": "w1", "start_time": at(1)}
    if state in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"):
        known |= {"end_time": at(2), "exit_code": ExitCode(return_code=0)}
    return JobRecord(job_id=number, job_state=tuple(state.split("+")), **known | times | fields)


def waiting_array(number: int, tasks: str, **fields: Any) -> JobRecord:
    """The tasks of an array that have not started."""
    return job(number, array_job_id=number, array_task_string=tasks, **fields)


def task(number: int, array: int, task_id: int, state: str = "RUNNING", **fields: Any) -> JobRecord:
    """A task of an array that has a record of its own."""
    return job(number, state, array_job_id=array, array_task_id=task_id, **fields)


def node(name: str = "w1", *states: str, **fields: Any) -> NodeRecord:
    """A node with 4 CPUs and 4,000 MiB whose slurmd began at second 0."""
    known: dict[str, Any] = {"cpus": 4, "real_memory": 4000, "slurmd_start_time": at(0), "last_busy": at(0)}
    return NodeRecord(name=name, state=states or ("IDLE", "DYNAMIC_NORM"), **known | fields)
