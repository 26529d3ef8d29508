"""The order of a list of jobs, and the cursor of its next page."""

import base64
import binascii
import heapq
import json
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from clusterra_proxy.slurmrestd.accounting import OLDEST
from clusterra_proxy.slurmrestd.errors import Invalid
from clusterra_proxy.slurmrestd.records import JobRecord

type _Key = tuple[str | int, int, int, int]
"""The value of the field, then `JobRecord.sort_key`, so that no two jobs have the same."""


def _seconds(moment: datetime | None) -> int:
    return int((moment or OLDEST).timestamp())


_TIMES: Mapping[str, Callable[[JobRecord], int]] = {
    "submitted": lambda record: record.sort_key[0],
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

    def page(self, records: Sequence[JobRecord], cursor: str | None, limit: int) -> tuple[list[JobRecord], str | None]:
        """Return at most `limit` records behind the cursor, and the cursor of what follows. Raises Invalid."""
        key = self._key
        rest = records
        if cursor:
            after = self._read(cursor)
            follows = operator.lt if self._descending else operator.gt
            rest = [record for record in records if follows(key(record), after)]
        # slurmctld's records come roughly in the order of their submit times. If those of the page are read first,
        # almost all others are passed over after one comparison.
        if self._descending:
            page = heapq.nlargest(limit, reversed(rest), key=key)
        else:
            page = heapq.nsmallest(limit, rest, key=key)
        return page, self._write(page[-1]) if len(rest) > len(page) else None

    @property
    def _field(self) -> str:
        return self.sort.removeprefix("-")

    @property
    def _descending(self) -> bool:
        return self.sort.startswith("-")

    @cached_property
    def _key(self) -> Callable[[JobRecord], _Key]:
        owner_name = self.owner_name
        if self._field in _TEXTS:
            text = _TEXTS[self._field]
            return lambda record: (text(record, owner_name(record)), *record.sort_key)
        time = _TIMES[self._field]
        return lambda record: (time(record), *record.sort_key)

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
