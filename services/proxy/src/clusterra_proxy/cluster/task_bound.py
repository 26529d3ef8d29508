"""Bounds the waiting tasks of all arrays of a cluster: a few bytes of a record name a million, each of which costs."""

from collections.abc import Callable, Sequence

from clusterra_proxy.slurmrestd.notation import array_tasks
from clusterra_proxy.slurmrestd.reading.repair import Unreadable
from clusterra_proxy.slurmrestd.records import JobRecord

MAX_TASKS = 2 * array_tasks.MAX_TASKS
"""Maximum number of waiting tasks of all arrays. The record of an array beyond counts as unreadable."""
TASKS_FIELD = "array_task_string"

type UnreadableListener = Callable[[str, Sequence[Unreadable]], None]
"""Is told the records of which something cannot be read, and what they are: `job`."""


class TaskBound:
    """Counts the tasks that the records of a table name."""

    def __init__(self, on_unreadable: UnreadableListener) -> None:
        self._on_unreadable = on_unreadable
        self._tasks = 0

    def admit(self, record: JobRecord, replaced: JobRecord | None) -> JobRecord:
        """Count a record. Return it, without its tasks if there are too many with those of the others."""
        if replaced is not None:
            self.release(replaced)
        tasks = array_tasks.count(record.array_task_string)
        if self._tasks + tasks <= MAX_TASKS:
            self._tasks += tasks
            return record
        self._on_unreadable("job", (Unreadable(id=record.id, problems=(f"{TASKS_FIELD}: too_many_tasks",)),))
        flagged = tuple(sorted({*record.unreadable, TASKS_FIELD}))
        return record.model_copy(update={TASKS_FIELD: "", "unreadable": flagged})

    def release(self, record: JobRecord) -> None:
        """No longer count a record that was admitted."""
        self._tasks -= array_tasks.count(record.array_task_string)


def state_rows(record: JobRecord) -> int:
    """Return how many rows of `jobs/state` the record of an array has; the bound when its tasks cannot be read."""
    return MAX_TASKS if TASKS_FIELD in record.unreadable else array_tasks.count(record.array_task_string)
