"""Converts job records to `Job`, as replies show it."""

import re
from collections.abc import Sequence

from clusterra_contracts.identity import JobId
from clusterra_contracts.rpc.slurm import Job

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.requests.output_path import known_values, written_path
from clusterra_proxy.slurmrestd.accounting import OLDEST
from clusterra_proxy.slurmrestd.gres import memory_per_gpu_mib, requested_gres
from clusterra_proxy.slurmrestd.notation import array_tasks
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.watch.job_facts import UNKNOWN_UID
from clusterra_proxy.watch.snapshot import shares_no_nodes

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
    user = cluster.owner_name(record)
    values = known_values(record)
    per_gpu = memory_per_gpu_mib(record)
    stdout = written_path(record.standard_output, record.stdout_expanded, values, user)
    stderr = written_path(record.standard_error, record.stderr_expanded, values, user)
    if record.is_waiting_array:
        stdout, stderr = record.standard_output, ""
    if record.never_started_tasks:
        stdout = stderr = ""
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
        cpus_per_task=record.cpus_per_task or 1,
        cpus_per_node=record.minimum_cpus_per_node or 1,
        min_nodes=record.min_nodes,
        max_nodes=record.max_nodes or None,
        memory_per_node_mib=record.memory_per_node or None,
        memory_per_cpu_mib=record.memory_per_cpu or None,
        memory_per_gpu_mib=per_gpu,
        all_memory=record.memory_per_node == 0 and per_gpu is None,
        exclusive=shares_no_nodes(record),
        constraints=record.features,
        gres=requested_gres(record),
        time_limit_seconds=None if record.time_limit is None else record.time_limit * 60.0,
        submitted_at=record.submit_time or OLDEST,
        started_at=record.started_at,
        ended_at=record.end_time if record.ended else None,
        exit_code=record.return_code,
        signal=record.signal,
        restarts=record.restart_cnt,
        array_tasks=_waiting(cluster, record),
        unstarted_tasks=_unstarted(record),
        standard_output=stdout,
        standard_error=stderr,
        het_job_id=str(record.het_job_id) if record.het_job_id else None,
        het_offset=record.het_job_offset or 0,
        het_components=component_ids(record),
        template=record.parsed_comment.template,
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
    """Convert a whole array to one job: it ends with its last task, in the worst state and exit code of its tasks.

    An array may have 10,000 tasks and more, so only one of them is converted as a whole.
    """
    tasks = [record for record in records if is_shown(record)]
    if not tasks:
        return None
    representative = min(
        tasks, key=lambda task: _STATE_PRECEDENCE.index(task.state) if task.state in _STATE_PRECEDENCE else 0
    )
    job = job_view(cluster, representative)
    if job is None or len(tasks) == 1:
        return None if job is None else job.model_copy(update={"job_id": array})
    codes = [code for task in tasks if (code := task.return_code) is not None]
    ends = [task.end_time for task in tasks if task.ended and task.end_time]
    starts = [task.started_at for task in tasks]
    over = len(ends) == len(tasks)
    return job.model_copy(
        update={
            "job_id": array,
            "array_tasks": next((text for task in tasks if (text := _waiting(cluster, task))), ""),
            "unstarted_tasks": next((text for task in tasks if (text := _unstarted(task))), ""),
            "nodes": tuple(sorted({node for task in tasks if task.started_at for node in task.hosts})),
            "submitted_at": min(task.submit_time or OLDEST for task in tasks),
            "started_at": min((start for start in starts if start), default=None),
            "ended_at": max(ends, default=None) if over else None,
            "exit_code": max(codes, default=None) if over and (any(codes) or job.exit_code == 0) else None,
            "standard_output": records[0].standard_output,
            "standard_error": "",
        }
    )


def _waiting(cluster: Cluster, record: JobRecord) -> str:
    """Return the waiting tasks of a record, in Slurm's notation. In one that has ended none waits any more."""
    if record.ended:
        return ""
    waiting = cluster.jobs.waiting_tasks(record)
    return array_tasks.format_tasks(waiting) if waiting else record.array_task_string


def _unstarted(record: JobRecord) -> str:
    """Return the tasks of a record that ended before they started, in Slurm's notation."""
    if not (record.never_started_tasks and record.is_waiting_array):
        return ""
    return record.array_task_string.partition("%")[0]
