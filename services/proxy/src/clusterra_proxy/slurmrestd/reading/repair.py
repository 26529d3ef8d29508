"""Reads the records of an answer one by one, once the answer as a whole could not be read.

A field that cannot be read gets its default. The record then names it in `unreadable`, unless nobody decides by it. A
record without a readable identity is dropped. Either way the answer names the record and its fields, but never a
value, which may be a secret.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

MAX_FIELDS = 8
"""The number of fields that are named for one record."""
_MAX_ID = 64
_MAX_ROUNDS = 4


class Record(BaseModel):
    """Base of all models of an answer."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class Unreadable(Record):
    """A record of which something could not be read."""

    id: str = ""
    """The job id or the name; empty for a record that was dropped because it has none."""
    problems: tuple[str, ...] = ()
    """The fields, each with the kind of its error, such as `cpus: int_parsing`."""


class Readable(Record):
    """A record of a list. Each is read on its own when the list as a whole cannot be."""

    KEY: ClassVar[str]
    """The field that identifies the record."""
    HARMLESS: ClassVar[frozenset[str]] = frozenset()
    """Fields by which nobody decides: their defaults serve as well."""
    UNKNOWN: ClassVar[Mapping[str, Any]] = {}
    """The values that stand for required fields that cannot be read."""

    unreadable: tuple[str, ...] = ()
    """The fields that could not be read and have their defaults, apart from harmless ones."""


def read_records[R: Readable](model: type[R], items: Iterable[Any]) -> tuple[list[R], list[Unreadable]]:
    """Read records one by one. Returns them, and which of them could not be read as they are."""
    records: list[R] = []
    found: list[Unreadable] = []
    for item in items:
        record, problems = _read(model, item)
        if record is not None:
            records.append(record)
        if problems or record is None:
            name = "" if record is None else str(getattr(record, model.KEY))[:_MAX_ID]
            found.append(Unreadable(id=name, problems=tuple(problems)[:MAX_FIELDS]))
    return records, found


def _read[R: Readable](model: type[R], item: Any) -> tuple[R | None, list[str]]:
    """Return the record, without the fields that cannot be read, and those with their errors."""
    bad: dict[str, str] = {}
    values = item
    # A field may depend on another one, so that its error shows only later.
    for _ in range(_MAX_ROUNDS):
        try:
            record = model.model_validate(values)
        except ValidationError as error:
            bad |= dict(_problems(error))
            if not isinstance(item, dict) or model.KEY in bad:
                break
            kept = {name: value for name, value in item.items() if name not in bad}
            flagged = {"unreadable": tuple(sorted(bad.keys() - model.HARMLESS))}
            values = kept | {name: value for name, value in model.UNKNOWN.items() if name in bad} | flagged
        else:
            return record, [f"{name}: {kind}" for name, kind in bad.items()]
    return None, [f"{name}: {kind}" for name, kind in bad.items()]


def _problems(error: ValidationError) -> Iterator[tuple[str, str]]:
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        yield str(detail["loc"][0]) if detail["loc"] else "record", detail["type"]
