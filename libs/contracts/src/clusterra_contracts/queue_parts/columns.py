"""Columns: the names and times of many equal records, written compactly."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import Field

MAX_VALUES = 100_000
"""Maximum number of values of one column."""

type CountedNames = tuple[str, Annotated[int, Field(ge=2, le=MAX_VALUES)]]
"""A first name and how many names there are, each with the next number at its end: `("w08", 3)` is w08, w09, w10."""
type Names = tuple[str | CountedNames, ...]
"""Names in their order."""
type Times = tuple[int, ...]
"""Times in microseconds: the first since the epoch, each other one since the one before."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DIGITS = "0123456789"
_MAX_DIGITS = 15


def names_of(names: Iterable[str]) -> Names:
    """Write names as a column."""
    column: list[str | CountedNames] = []
    first, count, following = "", 0, ""
    prefix, number, width = "", 0, 0
    for name in names:
        if count and name == following:
            count += 1
            number += 1
        else:
            if count:
                column.append(first if count == 1 else (first, count))
            first, count = name, 1
            prefix, number, width = _numbered(name)
        following = f"{prefix}{number + 1:0{width}}" if width else ""
        if not width or count == MAX_VALUES:
            column.append(first if count == 1 else (first, count))
            count = 0
    if count:
        column.append(first if count == 1 else (first, count))
    return tuple(column)


def expand_names(column: Names) -> tuple[str, ...]:
    """Return the names of a column. Raises ValueError if there are more than `MAX_VALUES`."""
    if sum(1 if isinstance(each, str) else each[1] for each in column) > MAX_VALUES:
        raise ValueError(f"a column has more than {MAX_VALUES} values")
    names: list[str] = []
    for each in column:
        if isinstance(each, str):
            names.append(each)
            continue
        first, count = each
        prefix, number, width = _numbered(first)
        if not width:
            raise ValueError("a name that is counted on has no number at its end")
        names.append(first)
        names += [f"{prefix}{number + more:0{width}}" for more in range(1, count)]
    return tuple(names)


def _numbered(name: str) -> tuple[str, int, int]:
    """Split a name into its beginning and the number at its end with its width; the width is 0 without a number."""
    width = min(len(name) - len(name.rstrip(_DIGITS)), _MAX_DIGITS)
    return (name[:-width], int(name[-width:]), width) if width else (name, 0, 0)


def times_of(moments: Iterable[datetime]) -> Times:
    """Write moments as a column."""
    column, before = [], 0
    for moment in moments:
        microseconds = (moment - _EPOCH) // _MICROSECOND
        column.append(microseconds - before)
        before = microseconds
    return tuple(column)


def expand_times(column: Times) -> tuple[datetime, ...]:
    """Return the moments of a column. Raises ValueError for a moment that no datetime can hold."""
    moments, microseconds = [], 0
    try:
        for difference in column:
            microseconds += difference
            moments.append(_EPOCH + timedelta(microseconds=microseconds))
    except OverflowError as error:
        raise ValueError("a time is out of range") from error
    return tuple(moments)
