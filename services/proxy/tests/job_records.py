"""Job and node records for unit tests, as slurmctld returns them during a job's life."""

from datetime import UTC, datetime, timedelta
from typing import Any

from clusterra_proxy.slurmrestd.records import ExitCode, JobRecord, NodeRecord

BEGIN = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """The time at `seconds` after the tests' epoch."""
    return BEGIN + timedelta(seconds=seconds)


def job(number: int = 1, state: str = "PENDING", **fields: Any) -> JobRecord:
    """A job of uid 5001 in this state; `submit`, `start` and `end` are seconds after the tests' epoch."""
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
    """The waiting tasks of an array."""
    return job(number, array_job_id=number, array_task_string=tasks, **fields)


def task(number: int, array: int, task_id: int, state: str = "RUNNING", **fields: Any) -> JobRecord:
    """An array task with its own record."""
    return job(number, state, array_job_id=array, array_task_id=task_id, **fields)


def node(name: str = "w1", *states: str, **fields: Any) -> NodeRecord:
    """A node with 4 CPUs and 4,000 MiB whose slurmd started at second 0."""
    known: dict[str, Any] = {"cpus": 4, "real_memory": 4000, "slurmd_start_time": at(0), "last_busy": at(0)}
    return NodeRecord(name=name, state=states or ("IDLE", "DYNAMIC_NORM"), **known | fields)
