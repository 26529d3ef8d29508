"""Finds the pending jobs that more nodes would start."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.demand import Fits, Part, interchangeable, parts_of
from clusterra_contracts.identity import JobId
from clusterra_contracts.queue import PendingJobs

from clusterra_scaler.planner.requests.pending_reasons import cause_of_reason


@dataclass(frozen=True, slots=True)
class Demand:
    """`count` equal jobs, each of which needs all nodes of its parts at the same time, all of them different."""

    job_ids: tuple[JobId, ...]
    count: int
    parts: tuple[Part, ...]
    uid: int
    limit_seconds: float | None
    """The time limit; None for no limit."""
    submitted_at: datetime
    """When the first of the jobs was submitted."""
    extra: str
    """The jobs' expression on the Extra of nodes (`sbatch --extra`)."""

    @property
    def nodes(self) -> int:
        """The number of nodes that one job needs."""
        return sum(part.nodes for part in self.parts)


def startable(pending: Iterable[PendingJobs], partition: str, now: datetime, fits: Fits) -> list[Demand]:
    """Return the demand of a partition's jobs that wait for nodes and for nothing else.

    The components of a heterogeneous job form one demand, unless one of them waits for something else: then the job
    has no demand.
    """
    demands: list[Demand] = []
    components: defaultdict[tuple[JobId, int], list[PendingJobs]] = defaultdict(list)
    for group in pending:
        if group.het_job_id is not None:
            components[group.het_job_id, group.uid].append(group)
        elif _could_start(group, partition, now):
            demands.append(demand_of([group], fits))
    for groups in components.values():
        if all(_could_start(group, partition, now) for group in groups):
            demands.append(demand_of(sorted(groups, key=lambda group: group.het_offset), fits))
    return demands


def waits_for_nodes(group: PendingJobs, now: datetime) -> bool:
    """Whether Slurm would start these jobs if it had more nodes.

    A reservation already has its nodes. A job that Slurm holds because no node fits (`BadConstraints`) is released
    when a fitting node registers. For a job that may run in several partitions Slurm reports the reason of the
    partition it tried last: if one partition does not allow the job, its reason alternates every second with the lack
    of nodes in another. Without nodes, Slurm looks at no job: an array whose last worker left with its running task
    keeps the reason `JobArrayTaskLimit`, although its limit has room.
    """
    if group.dependent or group.reservation or (group.begins_at is not None and group.begins_at > now):
        return False
    cause = cause_of_reason(group.reason)
    if cause == "fitting node":
        return True
    outdated = (cause == "partition" and "," in group.partition) or (cause == "throttle" and group.count > 0)
    return not group.held and (cause == "nodes" or outdated)


def unknown_reasons(pending: Iterable[PendingJobs]) -> tuple[str, ...]:
    """Return the reasons that the scaler does not know. Jobs with such a reason are assumed not to wait for nodes."""
    return tuple(sorted({group.reason for group in pending if cause_of_reason(group.reason) is None}))


def demand_of(groups: Sequence[PendingJobs], fits: Fits) -> Demand:
    """Return the demand of one group of equal jobs, or of the components of one heterogeneous job."""
    parts = tuple(part for group in groups for part in parts_of(group, fits))
    return Demand(
        job_ids=tuple(job_id for group in groups for job_id in group.job_ids),
        count=min(group.count for group in groups),
        parts=interchangeable(parts, fits) if len(groups) > 1 else parts,
        uid=groups[0].uid,
        limit_seconds=groups[0].time_limit_seconds,
        submitted_at=min(group.first_submitted_at for group in groups),
        extra=groups[0].extra,
    )


def _could_start(group: PendingJobs, partition: str, now: datetime) -> bool:
    return group.count > 0 and partition in group.partition.split(",") and waits_for_nodes(group, now)
