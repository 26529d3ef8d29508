"""Mirrors slurmctld's job records: comparing all states shows which records must be read again."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.identity import JobId, now

from clusterra_proxy.cluster.node_bound import NodeBound
from clusterra_proxy.cluster.task_bound import TASKS_FIELD, TaskBound, UnreadableListener, state_rows
from clusterra_proxy.slurmrestd.answers import StateRow
from clusterra_proxy.slurmrestd.notation import array_tasks
from clusterra_proxy.slurmrestd.records import UNKNOWN_STATE, JobRecord


@dataclass(frozen=True)
class Entry:
    """A record with the time at which it was requested."""

    record: JobRecord
    requested_at: datetime


@dataclass
class _Poll:
    """The last poll of all states that had all records of the table, and no others."""

    rows: tuple[StateRow, ...]
    states: dict[int, tuple[str, ...]]
    unsettled: set[int]
    """The records that may differ from their states: they differed in the poll, or were read since."""


@dataclass(frozen=True)
class StateDiff:
    """Differences between a poll of all states and the table. Numbers are record numbers."""

    changed: frozenset[int]
    """Records to read: new ones, and those whose state differs from the table."""
    removed: tuple[JobRecord, ...]
    """Records that slurmctld no longer has."""


class JobTable:
    """All of slurmctld's job records, by record number.

    A record never replaces one that was requested later. A poll never removes a record that was requested after the
    poll.
    """

    def __init__(self, on_unreadable: UnreadableListener = lambda _kind, _records: None) -> None:
        self._task_bound = TaskBound(on_unreadable)
        self._node_bound = NodeBound(on_unreadable)
        self._entries: dict[int, Entry] = {}
        self._waiting: dict[int, tuple[int, ...]] = {}
        self._last_poll: _Poll | None = None
        self._arrays: defaultdict[int, set[int]] = defaultdict(set)
        self._no_longer_waiting: defaultdict[int, dict[int, datetime]] = defaultdict(dict)
        """By array, tasks observed to wait no longer, with the time: they started or were cancelled."""
        self._cancelled: defaultdict[int, dict[int, JobRecord]] = defaultdict(dict)
        self._left: dict[int, tuple[int, int | None]] = {}
        """By array, how many tasks had not ended at a version."""
        self._unreadable: set[int] = set()
        self._array_rows: dict[int, int] = {}
        """By record, the number of rows of `jobs/state` that it has, if it stands for several tasks."""
        self.settled_at = now()
        """When a record last left, or became that of another run or task: what accounting alone tells changed then."""
        self.version = 0
        """Counts what was read: while it stays, so do the records and the waiting tasks."""

    def __iter__(self) -> Iterator[JobRecord]:
        """Iterate over all records, and one for each task that was cancelled before it started."""
        for entry in self._entries.values():
            yield entry.record
        for cancelled in self._cancelled.values():
            yield from cancelled.values()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def unreadable(self) -> int:
        """The number of records of which something cannot be read."""
        return len(self._unreadable)

    @property
    def state_rows(self) -> int:
        """The number of rows that `jobs/state` would have: one for each record, and one for each waiting task."""
        return len(self._entries) + sum(self._array_rows.values())

    def job(self, job_id: JobId) -> tuple[JobRecord, ...]:
        """Return the record of a job or a task, or all records of an array; an empty tuple for an unknown id."""
        whole, _, task = job_id.partition("_")
        number = int(whole)
        if number not in self._arrays:
            found = self._entries.get(number)
            return (found.record,) if found and not task and not found.record.array else ()
        records = [self._entries[known].record for known in sorted(self._arrays[number])]
        records.extend(self._cancelled[number].values() if number in self._cancelled else ())
        if not task:
            return tuple(records)
        exact = tuple(record for record in records if record.id == job_id)
        # A task that no longer waits counts as waiting until the next poll shows whether it started.
        no_longer_waiting = self._no_longer_waiting.get(number, {})
        return exact or tuple(
            record
            for record in records
            if record.is_waiting_array and (int(task) in self.waiting_tasks(record) or int(task) in no_longer_waiting)
        )

    def tasks_left(self, array: int) -> int | None:
        """How many tasks of an array have not ended; None where the records do not tell.

        Call this when all differences of a poll have been read: before, tasks may be missing that have just started.
        A task that no longer waits, and has no record yet, counts.
        """
        version, left = self._left.get(array, (-1, None))
        if version != self.version:
            left = self._count_left(array)
            self._left = {each: of for each, of in self._left.items() if of[0] == self.version}
            self._left[array] = self.version, left
        return left

    def _count_left(self, array: int) -> int | None:
        left, started = 0, set[int | None]()
        for number in self._arrays.get(array, ()):
            record = self._entries[number].record
            if not record.is_waiting_array:
                started.add(record.array_task_id)
                left += not record.ended
            elif not record.ended:
                known, expression = self._waiting.get(number), record.array_task_string
                if TASKS_FIELD in record.unreadable or (not known and array_tasks.truncated(expression)):
                    return None
                left += len(known) if known else array_tasks.count(expression)
        left += len(self._no_longer_waiting.get(array, {}).keys() - started)
        return left if started or left else None

    def waiting_tasks(self, record: JobRecord) -> tuple[int, ...]:
        """Return the waiting tasks of a record. Long lists come from the states: Slurm truncates them in the record."""
        if not record.is_waiting_array:
            return ()
        return self._waiting.get(record.job_id) or array_tasks.expand(record.array_task_string)

    def admitted(self, record: JobRecord) -> JobRecord:
        """Return a record that was put, without what the bounds of the table do not allow."""
        known = self._entries.get(record.job_id)
        return known.record if known is not None and known.record.unreadable else record

    def put(self, record: JobRecord, requested_at: datetime) -> None:
        """Add a record that was requested at `requested_at`."""
        known = self._entries.get(record.job_id)
        if known is not None and known.requested_at > requested_at:
            return
        replaced = known.record if known is not None else None
        record = self._node_bound.admit(self._task_bound.admit(record, replaced), replaced)
        # A field that cannot be read is no news: its tasks may wait as before.
        tasks_known = record.is_waiting_array and TASKS_FIELD not in record.unreadable
        if known is not None and known.record.is_waiting_array and tasks_known:
            self._follow_waiting_tasks(known.record, record.array_task_string)
        if replaced is not None and (replaced.id, replaced.submit_time) != (record.id, record.submit_time):
            self.settled_at = now()
        self._entries[record.job_id] = Entry(record, requested_at)
        self.version += 1
        self._note_read(record)
        if record.unreadable:
            self._unreadable.add(record.job_id)
        else:
            self._unreadable.discard(record.job_id)
        if record.array:
            self._arrays[record.array].add(record.job_id)
        if record.is_waiting_array:
            self._array_rows[record.job_id] = state_rows(record)
        else:
            self._waiting.pop(record.job_id, None)
            self._array_rows.pop(record.job_id, None)

    def replace(
        self, records: Iterable[JobRecord], requested_at: datetime, *, unidentified: int = 0
    ) -> tuple[JobRecord, ...]:
        """Apply a full list. Returns the records that slurmctld no longer has.

        With unidentified records nobody knows which ones are missing, so the list removes none.
        """
        listed = set()
        for record in records:
            listed.add(record.job_id)
            self.put(record, requested_at)
        return () if unidentified else self._remove(listed, requested_at)

    def apply_states(self, rows: tuple[StateRow, ...], requested_at: datetime, *, unidentified: int = 0) -> StateDiff:
        """Apply a poll of all states. Removes missing records and returns all differences.

        With unidentified rows nobody knows which records are missing, so the poll removes none. For the very tuple of
        the last poll, only the records are compared that differed then or were read since.
        """
        if self._last_poll is not None and rows is self._last_poll.rows:
            return self._apply_again(self._last_poll, requested_at)
        states: dict[int, tuple[str, ...]] = {}
        tasks: defaultdict[int, list[int]] = defaultdict(list)
        missing = unidentified
        for row in rows:
            if row.record is None:
                missing += 1
                continue
            number, task = row.record
            states[number] = row.state
            if task is not None:
                tasks[number].append(task)
        changed, unsettled = set(), set()
        for number, state in states.items():
            entry = self._entries.get(number)
            if entry is None:
                changed.add(number)
            elif entry.requested_at > requested_at:
                unsettled.add(number)
            else:
                if _differs(entry.record, state):
                    changed.add(number)
                if entry.record.is_waiting_array:
                    self._set_waiting_tasks(entry.record, tuple(sorted(tasks[number])), requested_at)
        removed = () if missing else self._remove(set(states), requested_at)
        unsettled |= changed
        same = not missing and len(self._entries) == len(states) and unsettled <= self._entries.keys()
        # The tasks of an array are compared as a whole.
        one_by_one = same and not any(self._entries[number].record.array for number in unsettled)
        self._last_poll = _Poll(rows, states, unsettled) if one_by_one else None
        return StateDiff(frozenset(changed), removed)

    def _apply_again(self, poll: _Poll, requested_at: datetime) -> StateDiff:
        changed = set()
        for number in tuple(poll.unsettled):
            entry = self._entries[number]
            if entry.requested_at > requested_at:
                continue
            if _differs(entry.record, poll.states[number]):
                changed.add(number)
            else:
                poll.unsettled.discard(number)
        return StateDiff(frozenset(changed), ())

    def _note_read(self, record: JobRecord) -> None:
        """A record was added or replaced since the last poll."""
        poll = self._last_poll
        if poll is not None and record.job_id in poll.states and not record.array:
            poll.unsettled.add(record.job_id)
        else:
            self._last_poll = None

    def cancelled_tasks(self, requested_at: datetime) -> tuple[JobRecord, ...]:
        """Return new records for tasks that were cancelled before they started: Slurm keeps no record of them.

        Call this after all differences of the poll sent at `requested_at` have been read: a task that no longer waits
        and has no record by then never started. The new record stays in the table as long as its array.
        """
        new: list[JobRecord] = []
        for array, no_longer_waiting in self._no_longer_waiting.items():
            due = {task for task, observed_at in no_longer_waiting.items() if observed_at <= requested_at}
            records = [self._entries[number].record for number in self._arrays.get(array, ())]
            cancelled = self._cancelled[array]
            never_started = sorted(due - {record.array_task_id for record in records} - cancelled.keys())
            if never_started:
                any_task = records[0].cancelled_before_start()
                for task in never_started:
                    ended = {"array_task_id": task, "end_time": no_longer_waiting[task]}
                    cancelled[task] = any_task.model_copy(update=ended)
                    new.append(cancelled[task])
                self.version += 1
            for task in due:
                del no_longer_waiting[task]
        return tuple(new)

    def _follow_waiting_tasks(self, known: JobRecord, expression: str) -> None:
        """Apply the tasks that a newer record of an array names. A truncated expression does not name them all."""
        if expression == known.array_task_string:
            return
        if not array_tasks.truncated(expression):
            self._set_waiting_tasks(known, array_tasks.expand(expression), now())
            return
        records = (self._entries[number].record for number in self._arrays.get(known.array or 0, ()))
        started = {record.array_task_id for record in records}
        self._set_waiting_tasks(known, tuple(task for task in self.waiting_tasks(known) if task not in started), now())

    def _set_waiting_tasks(self, array: JobRecord, tasks: tuple[int, ...], observed_at: datetime) -> None:
        """Set which tasks of an array wait now, and record those that no longer do."""
        for task in set(self.waiting_tasks(array)) - set(tasks):
            self._no_longer_waiting[array.array or array.job_id].setdefault(task, observed_at)
        if self._waiting.get(array.job_id) != tasks:
            self._waiting[array.job_id] = tasks
            self.version += 1

    def _remove(self, listed: set[int], requested_at: datetime) -> tuple[JobRecord, ...]:
        removed = [
            number
            for number, entry in self._entries.items()
            if number not in listed and entry.requested_at < requested_at
        ]
        records = []
        if removed:
            self._last_poll = None
            self.version += 1
            self.settled_at = now()
        for number in removed:
            record = self._entries.pop(number).record
            self._task_bound.release(record)
            self._node_bound.release(record)
            self._unreadable.discard(number)
            self._array_rows.pop(number, None)
            self._waiting.pop(number, None)
            if record.array:
                self._arrays[record.array].discard(number)
                if not self._arrays[record.array]:
                    del self._arrays[record.array]
                    self._cancelled.pop(record.array, None)
                    self._no_longer_waiting.pop(record.array, None)
            records.append(record)
        return tuple(records)


def _differs(record: JobRecord, state: tuple[str, ...]) -> bool:
    """Whether a record must be read again. A state that cannot be read is no news: the next list reads the record."""
    known = record.job_state
    return bool(state) and known != state and known != (UNKNOWN_STATE,) and set(known) != set(state)
