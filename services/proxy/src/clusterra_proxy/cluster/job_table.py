"""The jobs of a cluster as slurmctld has them: its states are compared with what was read, and the rest is read."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from clusterra_contracts.identity import JobId, now

from clusterra_proxy.slurmrestd import array_tasks
from clusterra_proxy.slurmrestd.answers import StateRow
from clusterra_proxy.slurmrestd.records import JobRecord

_ROW_ID = re.compile(r"(\d+)(?:_(\d+))?")


@dataclass(frozen=True)
class Entry:
    """A record with when the question was asked that it answers."""

    record: JobRecord
    asked_at: datetime


@dataclass(frozen=True)
class Difference:
    """What a look at all states found different from the table. Numbers are those of records."""

    changed: frozenset[int]
    """New ones, and those in another state than the table has: to be read."""
    gone: tuple[JobRecord, ...]
    """Those that slurmctld knows no more."""


class JobTable:
    """All jobs that slurmctld knows, by the numbers of their records.

    A record never replaces one whose question was asked later, and one that was read after a look began is not
    missed by it.
    """

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}
        self._waiting: dict[int, tuple[int, ...]] = {}
        self._arrays: defaultdict[int, set[int]] = defaultdict(set)
        self._ceased: defaultdict[int, dict[int, datetime]] = defaultdict(dict)
        """By array, tasks that wait no more, and when that was noticed: they have begun or were cancelled."""
        self._cancelled: defaultdict[int, dict[int, JobRecord]] = defaultdict(dict)

    def __iter__(self) -> Iterator[JobRecord]:
        """All records, and one for each task that was cancelled before it started."""
        for entry in self._entries.values():
            yield entry.record
        for cancelled in self._cancelled.values():
            yield from cancelled.values()

    def __len__(self) -> int:
        return len(self._entries)

    def job(self, job_id: JobId) -> tuple[JobRecord, ...]:
        """The record of a job or a task; all records of an array. Nothing when there is none."""
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
        # One that has ceased to wait is taken for waiting until the next look shows whether it has begun.
        ceased = self._ceased.get(number, {})
        return exact or tuple(
            record
            for record in records
            if record.waiting_tasks and (int(task) in self.waiting_tasks(record) or int(task) in ceased)
        )

    def waiting_tasks(self, record: JobRecord) -> tuple[int, ...]:
        """The tasks that a record stands for which have not started. Slurm cuts long lists of them in the record."""
        if not record.waiting_tasks:
            return ()
        return self._waiting.get(record.job_id) or array_tasks.expand(record.array_task_string)

    def put(self, record: JobRecord, asked_at: datetime) -> None:
        """Take a record that answers a question asked at a moment."""
        known = self._entries.get(record.job_id)
        if known is not None and known.asked_at > asked_at:
            return
        if known is not None and known.record.waiting_tasks and record.waiting_tasks:
            self._wait(known.record, array_tasks.expand(record.array_task_string), now())
        self._entries[record.job_id] = Entry(record, asked_at)
        if record.array:
            self._arrays[record.array].add(record.job_id)
        if not record.waiting_tasks:
            self._waiting.pop(record.job_id, None)

    def replace(self, records: Iterable[JobRecord], asked_at: datetime) -> tuple[JobRecord, ...]:
        """Take a full list; returns those that are gone."""
        listed = set()
        for record in records:
            listed.add(record.job_id)
            self.put(record, asked_at)
        return self._remove(listed, asked_at)

    def compare(self, rows: Iterable[StateRow], asked_at: datetime) -> Difference:
        """Find what is different from a look at all states that was asked for at a moment; forgets what is gone."""
        states: dict[int, tuple[str, ...]] = {}
        tasks: defaultdict[int, list[int]] = defaultdict(list)
        for row in rows:
            match = _ROW_ID.match(row.job_id)
            if match is not None:
                number = int(match.group(1))
                states[number] = row.state
                if match.group(2):
                    tasks[number].append(int(match.group(2)))
        changed = set()
        for number, state in states.items():
            entry = self._entries.get(number)
            if entry is None:
                changed.add(number)
            elif entry.asked_at <= asked_at:
                if set(entry.record.job_state) != set(state):
                    changed.add(number)
                if entry.record.waiting_tasks:
                    self._wait(entry.record, tuple(sorted(tasks[number])), asked_at)
        return Difference(frozenset(changed), self._remove(set(states), asked_at))

    def cancelled_tasks(self, looked_at: datetime) -> tuple[JobRecord, ...]:
        """New records for the tasks that were cancelled before they began: Slurm keeps no trace of them.

        To be called when all that the look of that moment found different has been read: a task that waits no more
        and has no record by then has not begun. Its record stays in the table for as long as its array.
        """
        new: list[JobRecord] = []
        for array, ceased in self._ceased.items():
            due = {task for task, noticed_at in ceased.items() if noticed_at <= looked_at}
            records = [self._entries[number].record for number in self._arrays.get(array, ())]
            for task in sorted(due - {record.array_task_id for record in records} - self._cancelled[array].keys()):
                self._cancelled[array][task] = _never_begun(records[0], task, ceased[task])
                new.append(self._cancelled[array][task])
            for task in due:
                del ceased[task]
        return tuple(new)

    def _wait(self, array: JobRecord, tasks: tuple[int, ...], noticed_at: datetime) -> None:
        """Note which tasks of an array wait now."""
        for task in set(self.waiting_tasks(array)) - set(tasks):
            self._ceased[array.array or array.job_id].setdefault(task, noticed_at)
        self._waiting[array.job_id] = tasks

    def _remove(self, listed: set[int], asked_at: datetime) -> tuple[JobRecord, ...]:
        gone = [number for number, entry in self._entries.items() if number not in listed and entry.asked_at < asked_at]
        records = []
        for number in gone:
            record = self._entries.pop(number).record
            self._waiting.pop(number, None)
            if record.array:
                self._arrays[record.array].discard(number)
                if not self._arrays[record.array]:
                    del self._arrays[record.array]
                    self._cancelled.pop(record.array, None)
                    self._ceased.pop(record.array, None)
            records.append(record)
        return tuple(records)


def _never_begun(array: JobRecord, task: int, at: datetime) -> JobRecord:
    known = {"array_task_id": task, "array_task_string": "", "job_state": ("CANCELLED",), "end_time": at}
    unstarted = {"nodes": "", "start_time": None, "restart_cnt": 0, "state_reason": ""}
    return JobRecord.model_validate(array.model_dump() | known | unstarted)
