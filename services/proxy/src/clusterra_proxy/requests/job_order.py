"""The order of a list of jobs, and the cursor of its next page."""

import base64
import binascii
import heapq
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from clusterra_proxy.slurmrestd.accounting import OLDEST
from clusterra_proxy.slurmrestd.errors import Invalid
from clusterra_proxy.slurmrestd.records import JobRecord

type _Key = tuple[str | int, int, int, int]
"""The value of the field, then submit time, job id and task, so that no two jobs have the same."""


def _seconds(moment: datetime | None) -> int:
    return int((moment or OLDEST).timestamp())


_TIMES: Mapping[str, Callable[[JobRecord], int]] = {
    "submitted": lambda record: _seconds(record.submit_time),
    "started": lambda record: _seconds(record.started_at),
    "ended": lambda record: _seconds(record.end_time if record.ended else None),
}
_TEXTS: Mapping[str, Callable[[JobRecord, str], str]] = {
    "name": lambda record, _: record.name,
    "user": lambda _, owner: owner,
    "state": lambda record, _: record.state,
}
"""The second argument is the name of the owner."""


@dataclass(frozen=True)
class JobOrder:
    """An order by one field, ascending or descending. Jobs without a time count as the oldest."""

    sort: str
    """The field, with `-` before it for a descending order, such as `-submitted`."""
    owner_name: Callable[[JobRecord], str]

    def __post_init__(self) -> None:
        if self._field not in _TIMES.keys() | _TEXTS.keys():
            fields = ", ".join((*_TIMES, *_TEXTS))
            raise Invalid(f"jobs have no order {self.sort!r}", hint=f"use one of {fields}, or '-' before it")

    def page(self, records: Iterable[JobRecord], cursor: str | None, limit: int) -> tuple[list[JobRecord], str | None]:
        """Return at most `limit` records behind the cursor, and the cursor of what follows. Raises Invalid."""
        after = self._read(cursor) if cursor else None
        rest = [record for record in records if after is None or self._follows(self._key(record), after)]
        choose = heapq.nlargest if self._descending else heapq.nsmallest
        page = choose(limit, rest, key=self._key)
        return page, self._write(page[-1]) if len(rest) > len(page) else None

    @property
    def _field(self) -> str:
        return self.sort.removeprefix("-")

    @property
    def _descending(self) -> bool:
        return self.sort.startswith("-")

    def _follows(self, key: _Key, after: _Key) -> bool:
        return key < after if self._descending else key > after

    def _key(self, record: JobRecord) -> _Key:
        task = record.array_task_id if record.array else None
        text = _TEXTS.get(self._field)
        return (
            text(record, self.owner_name(record)) if text else _TIMES[self._field](record),
            _seconds(record.submit_time),
            record.job_id if task is None else record.array or 0,
            -1 if task is None else task,
        )

    def _write(self, record: JobRecord) -> str:
        return base64.urlsafe_b64encode(json.dumps([self.sort, *self._key(record)]).encode()).decode().rstrip("=")

    def _read(self, cursor: str) -> _Key:
        try:
            sort, value, *rest = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
            submitted, job, task = (int(number) for number in rest)
            if sort != self.sort:
                raise Invalid(
                    f"the cursor belongs to a list in the order {sort!r}", hint="start again without a cursor"
                )
            return str(value) if self._field in _TEXTS else int(value), submitted, job, task
        except (ValueError, TypeError, RecursionError, binascii.Error) as error:
            raise Invalid("the cursor is invalid", hint="start again without a cursor") from error
