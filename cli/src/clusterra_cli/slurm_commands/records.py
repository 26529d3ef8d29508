"""Reads the values of slurmrestd's records, whose numbers may be objects that say whether they are set."""

from collections.abc import Mapping, Sequence
from typing import Any

type Record = Mapping[str, Any]


def number(record: Record, name: str) -> int | None:
    """A whole number; None where it is not set, or infinite."""
    value = record.get(name)
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def count(record: Record, name: str) -> int:
    """A whole number; 0 where it is not set."""
    return number(record, name) or 0


def infinite(record: Record, name: str) -> bool:
    """Whether a number is infinite."""
    value = record.get(name)
    return isinstance(value, Mapping) and bool(value.get("infinite"))


def text(record: Record, name: str) -> str:
    """A text; empty where there is none."""
    value = record.get(name)
    return value if isinstance(value, str) else ""


def texts(record: Record, name: str) -> tuple[str, ...]:
    """A list of texts, such as the states of a job."""
    value = record.get(name)
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(str(each) for each in value) if isinstance(value, Sequence) else ()


def part(record: Record, name: str) -> Record:
    """An object of a record; empty where there is none."""
    value = record.get(name)
    return value if isinstance(value, Mapping) else {}


def exit_code(record: Record, name: str = "exit_code") -> tuple[int, int]:
    """The exit code and the signal of a job."""
    value = part(record, name)
    return count(value, "return_code"), count(part(value, "signal"), "id")


def objects(record: Record, name: str) -> tuple[Record, ...]:
    """A list of objects."""
    value = record.get(name)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return tuple(each for each in value if isinstance(each, Mapping))
