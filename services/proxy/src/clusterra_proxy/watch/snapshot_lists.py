"""The lists of one cluster's snapshots, one after the other: work per change, not per record.

What is derived from a record is kept until the record is replaced by another object. So the work for an unchanged
record is one look-up.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.queue import NodeState, PendingJobs, RunningJob

from clusterra_proxy.slurmrestd.records import JobRecord, NodeRecord
from clusterra_proxy.watch.snapshot import (
    OwnerName,
    WaitingTasks,
    begins_at,
    holds,
    node_state,
    pending_group,
    priority_order,
    request_key,
    running_job,
    waits,
)


@dataclass(slots=True)
class _Known:
    """What is derived from one job record."""

    record: JobRecord
    waits: bool
    holds: bool
    order: tuple[int, tuple[int, int]]
    request: tuple[object, ...]
    """Empty unless the job waits."""
    running: RunningJob | None = None


class SnapshotLists:
    """The lists of one cluster's snapshots. They equal those of `snapshot.pending_jobs`, `running_jobs`, `node_states`.

    Only one call at a time: it may be on any thread.
    """

    def __init__(self) -> None:
        self._jobs: dict[int, _Known] = {}
        self._groups: dict[object, tuple[list[JobRecord], PendingJobs]] = {}
        self._nodes: dict[str, tuple[NodeRecord, NodeState]] = {}

    def jobs(
        self, records: Iterable[JobRecord], waiting_tasks: WaitingTasks, owner_name: OwnerName, at: datetime
    ) -> tuple[tuple[PendingJobs, ...], tuple[RunningJob, ...]]:
        """Return the pending jobs in groups, and the running jobs."""
        kept: dict[int, _Known] = {}
        known = [self._known(record, kept) for record in records]
        self._jobs = kept
        holding = sorted((each for each in known if each.holds), key=_id_order)
        running = [_running(each, owner_name) for each in holding]
        return self._pending(known, waiting_tasks, at), tuple(running)

    def nodes(self, records: Iterable[NodeRecord]) -> tuple[NodeState, ...]:
        """Return all nodes, sorted by name."""
        kept: dict[str, tuple[NodeRecord, NodeState]] = {}
        for record in records:
            known = self._nodes.get(record.name)
            kept[record.name] = known if known is not None and known[0] is record else (record, node_state(record))
        self._nodes = kept
        return tuple(kept[name][1] for name in sorted(kept))

    def _known(self, record: JobRecord, kept: dict[int, _Known]) -> _Known:
        known = self._jobs.get(record.job_id)
        if known is None or known.record is not record:
            waiting = waits(record)
            known = _Known(
                record,
                waiting,
                holds(record),
                priority_order(record),
                request_key(record) if waiting else (),
            )
        # A cancelled task has a record with the number of its array's: it neither waits nor runs.
        if known.waits or known.holds:
            kept[record.job_id] = known
        return known

    def _pending(self, known: Iterable[_Known], waiting_tasks: WaitingTasks, at: datetime) -> tuple[PendingJobs, ...]:
        started: Counter[int] = Counter()
        members: dict[object, list[JobRecord]] = {}
        pending = []
        for each in known:
            if each.waits:
                pending.append(each)
            elif each.record.array and each.record.holds_nodes:
                started[each.record.array] += 1
        for each in sorted(pending, key=lambda each: each.order):
            members.setdefault((each.request, begins_at(each.record, at)), []).append(each.record)
        before, self._groups = self._groups, {}
        for key, records in members.items():
            last = before.get(key)
            # Which tasks of an array wait, and how many may start, is not in its record.
            if last is None or last[0] != records or any(record.array for record in records):
                last = (records, pending_group(records, waiting_tasks, started, at))
            self._groups[key] = last
        return tuple(group for _, group in self._groups.values())


def _running(known: _Known, owner_name: OwnerName) -> RunningJob:
    owner = owner_name(known.record)
    if known.running is None or known.running.user != owner:
        known.running = running_job(known.record, owner)
    return known.running


def _id_order(known: _Known) -> tuple[int, int]:
    return known.order[1]
