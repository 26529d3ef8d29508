"""Converts job records to `Job`, as replies show it."""

import re
from collections.abc import Sequence

from clusterra_contracts.identity import JobId
from clusterra_contracts.rpc.slurm import Job

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.requests.output_path import known_values, written_path
from clusterra_proxy.slurmrestd import array_tasks
from clusterra_proxy.slurmrestd.accounting import OLDEST
from clusterra_proxy.slurmrestd.gres import requested_gres
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.watch.job_facts import UNKNOWN_UID

_STATE_PRECEDENCE = (
    "RUNNING",
    "SUSPENDED",
    "PENDING",
    "FAILED",
    "OUT_OF_MEMORY",
    "NODE_FAIL",
    "BOOT_FAIL",
    "TIMEOUT",
    "DEADLINE",
    "PREEMPTED",
    "CANCELLED",
    "COMPLETED",
)
"""An array's state is the first of these that any of its tasks has."""


MOST_COMPONENTS = 128
"""The most components that Slurm gives a heterogeneous job."""
_IDS = re.compile(r"(\d{1,10})(?:-(\d{1,10}))?")


def is_shown(record: JobRecord) -> bool:
    """Whether replies show a record: not one without submit time, which Slurm lists while it loads its state."""
    return record.submit_time is not None or bool(record.unreadable)


def job_view(cluster: Cluster, record: JobRecord) -> Job | None:
    """Convert one record. None for one that `is_shown` leaves out.

    A record of which something cannot be read is shown with what can be, and its reason says what cannot.
    """
    if not is_shown(record):
        return None
    signal = record.exit_code.signal.id
    waiting = cluster.jobs.waiting_tasks(record)
    user = cluster.owner_name(record)
    values = known_values(record)
    stdout = written_path(record.standard_output, record.stdout_expanded, values, user)
    stderr = written_path(record.standard_error, record.stderr_expanded, values, user)
    return Job(
        job_id=record.id,
        name=record.name,
        user=user,
        uid=UNKNOWN_UID if record.user_id is None else record.user_id,
        state=record.state,
        reason=record.reason_to_show,
        partition=record.partition,
        account=record.account,
        qos=record.qos,
        nodes=record.hosts if record.started_at else (),
        node_count=record.node_count or 1,
        cpus=record.cpus or 1,
        tasks=record.tasks or 1,
        memory_per_node_mib=record.memory_per_node or None,
        memory_per_cpu_mib=record.memory_per_cpu or None,
        constraints=record.features,
        gres=requested_gres(record),
        time_limit_seconds=None if record.time_limit is None else record.time_limit * 60.0,
        submitted_at=record.submit_time or OLDEST,
        started_at=record.started_at,
        ended_at=record.end_time if record.ended else None,
        exit_code=record.return_code,
        signal=signal or None,
        restarts=record.restart_cnt,
        array_tasks=array_tasks.format_tasks(waiting) if waiting else record.array_task_string,
        standard_output=record.standard_output if record.is_waiting_array else stdout,
        standard_error="" if record.is_waiting_array else stderr,
        het_job_id=str(record.het_job_id) if record.het_job_id else None,
        het_offset=record.het_job_offset or 0,
        het_components=component_ids(record),
    )


def component_ids(record: JobRecord) -> tuple[JobId, ...]:
    """Return the ids of all components of a heterogeneous job by the record of any; empty for any other job."""
    if not record.het_job_id or not record.het_job_id_set:
        return ()
    found: list[JobId] = []
    for first, last in _IDS.findall(record.het_job_id_set):
        found += map(str, range(int(first), min(int(last or first), int(first) + MOST_COMPONENTS) + 1))
    return tuple(found[:MOST_COMPONENTS])


def array_view(cluster: Cluster, array: JobId, records: Sequence[JobRecord]) -> Job | None:
    """Convert a whole array to one job: it ends with its last task, in the worst state and exit code of its tasks."""
    tasks = [job for record in records if (job := job_view(cluster, record)) is not None]
    if not tasks:
        return None
    if len(tasks) == 1:
        return tasks[0].model_copy(update={"job_id": array})
    representative = min(
        tasks, key=lambda job: _STATE_PRECEDENCE.index(job.state) if job.state in _STATE_PRECEDENCE else 0
    )
    codes = [job.exit_code for job in tasks if job.exit_code is not None]
    over = all(job.ended_at for job in tasks)
    return representative.model_copy(
        update={
            "job_id": array,
            "array_tasks": next((job.array_tasks for job in tasks if job.array_tasks), ""),
            "nodes": tuple(sorted({node for job in tasks for node in job.nodes})),
            "submitted_at": min(job.submitted_at for job in tasks),
            "started_at": min((job.started_at for job in tasks if job.started_at), default=None),
            "ended_at": max((job.ended_at for job in tasks if job.ended_at), default=None) if over else None,
            "exit_code": max(codes, default=None) if over and (any(codes) or representative.exit_code == 0) else None,
            "standard_output": records[0].standard_output,
            "standard_error": "",
        }
    )
