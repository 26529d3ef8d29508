"""Builds the queue snapshots that the scaler reads from job and node records."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from clusterra_contracts.gres import gres_counts
from clusterra_contracts.identity import JobId
from clusterra_contracts.queue import NodeState, PendingJobs, QueueSnapshot, RunningJob

from clusterra_proxy.slurmrestd.accounting import OLDEST
from clusterra_proxy.slurmrestd.gres import allocated_gres, memory_per_gpu_mib, requested_gres
from clusterra_proxy.slurmrestd.notation import array_tasks, hostlist
from clusterra_proxy.slurmrestd.notation.tres import memory_mib
from clusterra_proxy.slurmrestd.reading.fields import LATEST
from clusterra_proxy.slurmrestd.records import UNKNOWN_STATE, JobRecord, NodeRecord
from clusterra_proxy.watch.job_facts import UNKNOWN_UID

type OwnerName = Callable[[JobRecord], str]
"""Returns the name of a job's owner."""
type WaitingTasks = Callable[[JobRecord], tuple[int, ...]]
"""Returns the waiting tasks of an array's record."""


def pending_jobs(records: Iterable[JobRecord], waiting_tasks: WaitingTasks, at: datetime) -> tuple[PendingJobs, ...]:
    """Return the pending jobs, identical jobs as one group, in the order in which Slurm considers their first jobs.

    A job of which something cannot be read, perhaps even its state, has a group that demands nothing.
    """
    pending: list[JobRecord] = []
    started: Counter[int] = Counter()
    for record in records:
        if waits(record):
            pending.append(record)
        elif record.array and record.holds_nodes:
            started[record.array] += 1
    groups: dict[tuple[object, ...], list[JobRecord]] = {}
    for record in sorted(pending, key=priority_order):
        groups.setdefault((request_key(record), begins_at(record, at)), []).append(record)
    return tuple(pending_group(identical, waiting_tasks, started, at) for identical in groups.values())


def waits(record: JobRecord) -> bool:
    """Return whether a job waits, as far as its record can be read."""
    if record.unreadable:
        return record.state in ("PENDING", UNKNOWN_STATE) and not record.holds_nodes
    return record.state == "PENDING" and not record.holds_nodes and record.submit_time is not None


def request_key(record: JobRecord) -> tuple[object, ...]:
    """Return what a job requests and why it waits: equal for jobs that begin at once and are the same to the scaler."""
    if record.unreadable:
        return record.unreadable, record.user_id, record.het_job_id, record.het_job_offset
    return (
        *(record.cpus, record.cpus_per_task, record.minimum_cpus_per_node, record.tasks),
        *(record.min_nodes, record.max_nodes, record.required_nodes, record.excluded_nodes),
        *(record.memory_per_node, record.memory_per_cpu, record.memory_per_tres),
        *(record.features, requested_gres(record)),
        *(record.shared, record.partition, record.resv_name, record.het_job_id, record.het_job_offset),
        *(record.user_id, record.state_reason, record.hold, record.priority == 0, bool(record.dependency)),
        *(record.time_limit, record.extra),
    )


def pending_group(
    identical: Sequence[JobRecord], waiting_tasks: WaitingTasks, started: Counter[int], at: datetime
) -> PendingJobs:
    """Return the group of identical jobs. `started`: by array, how many of its tasks hold nodes."""
    record = identical[0]
    if record.unreadable:
        return _unreadable_group(identical)
    per_gpu = memory_per_gpu_mib(record)
    return PendingJobs(
        job_ids=tuple(each.id for each in identical),
        count=sum(_count(each, waiting_tasks, started) for each in identical),
        array_tasks={
            each.id: array_tasks.ranges(tasks)
            for each in identical
            if each.is_waiting_array and (tasks := waiting_tasks(each))
        },
        cpus=max(record.cpus or 1, 1),
        cpus_per_task=max(record.cpus_per_task or 1, 1),
        cpus_per_node=max(record.minimum_cpus_per_node or 1, 1),
        tasks=record.tasks or None,
        nodes=record.min_nodes,
        max_nodes=record.max_nodes or None,
        memory_per_node_mib=record.memory_per_node if per_gpu is None else None,
        memory_per_cpu_mib=record.memory_per_cpu or None,
        memory_per_gpu_mib=per_gpu,
        features=record.features,
        gres=requested_gres(record),
        exclusive=shares_no_nodes(record),
        exclusive_user=not {"user", "mcs"}.isdisjoint(record.shared),
        required_nodes=hostlist.expand(record.required_nodes),
        excluded_nodes=hostlist.expand(record.excluded_nodes),
        partition=record.partition,
        reservation=record.resv_name,
        het_job_id=str(record.het_job_id) if record.het_job_id else None,
        het_offset=record.het_job_offset or 0,
        uid=UNKNOWN_UID if record.user_id is None else record.user_id,
        reason=record.state_reason,
        held=record.hold or record.priority == 0,
        dependent=bool(record.dependency),
        begins_at=begins_at(record, at),
        time_limit_seconds=None if record.time_limit is None else record.time_limit * 60.0,
        first_submitted_at=min(each.submit_time for each in identical if each.submit_time is not None),
        extra=record.extra,
    )


def shares_no_nodes(record: JobRecord) -> bool:
    """Return whether a job shares its nodes with no other job."""
    return not {"none", "topo"}.isdisjoint(record.shared)


def _unreadable_group(identical: Sequence[JobRecord]) -> PendingJobs:
    record = identical[0]
    return PendingJobs(
        job_ids=tuple(each.id for each in identical),
        count=0,
        cpus=1,
        partition=record.partition,
        uid=UNKNOWN_UID if record.user_id is None else record.user_id,
        het_job_id=str(record.het_job_id) if record.het_job_id else None,
        het_offset=record.het_job_offset or 0,
        reason=record.reason_to_show,
        first_submitted_at=min(each.submit_time or OLDEST for each in identical),
    )


def begins_at(record: JobRecord, at: datetime) -> datetime | None:
    """Return when a job may begin, if that is in the future."""
    return record.eligible_time if record.eligible_time is not None and record.eligible_time > at else None


def _count(record: JobRecord, waiting_tasks: WaitingTasks, started: Counter[int]) -> int:
    if record.array is None or not record.is_waiting_array:
        return 1
    waiting = len(waiting_tasks(record)) or 1
    throttle = record.array_max_tasks
    return min(waiting, max(throttle - started[record.array], 0)) if throttle else waiting


def running_jobs(records: Iterable[JobRecord], owner_name: OwnerName) -> tuple[RunningJob, ...]:
    """Return the jobs that hold nodes, sorted by id."""
    running = (running_job(record, owner_name(record)) for record in records if holds(record))
    return tuple(sorted(running, key=lambda job: _job_id_order(job.job_id)))


def holds(record: JobRecord) -> bool:
    """Return whether a job holds nodes."""
    return record.holds_nodes and record.start_time is not None


def running_job(record: JobRecord, owner: str) -> RunningJob:
    """Return a job that holds nodes."""
    start = record.start_time or OLDEST
    return RunningJob(
        job_id=record.id,
        uid=UNKNOWN_UID if record.user_id is None else record.user_id,
        user=owner,
        nodes=record.hosts,
        cpus=record.cpus or 1,
        started_at=start,
        ends_by=_ends_by(start, record.time_limit),
        memory_mib=memory_mib(record.tres_alloc_str),
        gres=allocated_gres(record),
        extra=record.extra,
        suspended=record.state == "SUSPENDED",
    )


def _ends_by(start: datetime, minutes: int | None) -> datetime | None:
    """Return start plus time limit; None for a limit of thousands of years, which is as good as none."""
    left = (LATEST - start) // timedelta(minutes=1)
    return None if minutes is None or minutes > left else start + timedelta(minutes=minutes)


def node_states(nodes: Iterable[NodeRecord]) -> tuple[NodeState, ...]:
    """Return all nodes, sorted by name."""
    return tuple(sorted(map(node_state, nodes), key=lambda node: node.name))


def node_state(node: NodeRecord) -> NodeState:
    """Return a node. `idle_since` is Slurm's `last_busy`, which is set after the last clean-up.

    A node of which something cannot be read is neither idle nor does it have room.
    """
    return NodeState(
        name=node.name,
        states=(*(state for state in node.state if state != "IDLE"), "UNREADABLE") if node.unreadable else node.state,
        cpus=node.cpus,
        cpus_allocated=max(node.cpus, node.alloc_cpus, 1) if node.unreadable else node.alloc_cpus,
        memory_mib=node.real_memory,
        memory_allocated_mib=max(node.real_memory, node.alloc_memory) if node.unreadable else node.alloc_memory,
        gres=gres_counts(node.gres),
        gres_allocated=gres_counts(node.gres_used),
        features=node.features,
        reason=node.reason,
        idle_since=None if node.busy else node.last_busy,
        registered_at=node.slurmd_start_time,
        extra=node.extra,
    )


def urgent(snapshot: QueueSnapshot) -> bool:
    """Return whether the scaler's decisions depend on fresh snapshots: a job is pending or a node drains."""
    return bool(snapshot.pending) or any(node.draining for node in snapshot.nodes or ())


def same_queue(one: QueueSnapshot | None, other: QueueSnapshot) -> bool:
    """Return whether two snapshots have the same content, apart from time and generation."""
    return one is not None and _content(one) == _content(other)


def _content(snapshot: QueueSnapshot) -> tuple[object, ...]:
    unreadable = (snapshot.unreadable_jobs, snapshot.unreadable_nodes)
    return snapshot.pending, snapshot.running, snapshot.nodes, unreadable


def priority_order(record: JobRecord) -> tuple[int, tuple[int, int]]:
    """Return the sort key: highest priority first, then the oldest job."""
    return -(record.priority or 0), _job_id_order(record.id)


def _job_id_order(job_id: JobId) -> tuple[int, int]:
    whole, _, task = job_id.partition("_")
    return int(whole), int(task or 0)
