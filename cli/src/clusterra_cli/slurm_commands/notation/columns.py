"""Formats of squeue and sinfo: `%.10i` with literal text between (`-o`), and `Name:.10` lists (`-O`).

A column has a header and a function of a record. A value that is longer than its column is cut.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

_FIELD = re.compile(r"%(\.?)([0-9]{0,4})([A-Za-z])")
_NAMED = re.compile(r"([\w-]+)(?::(\.?)([0-9]{0,4})(.*))?", re.DOTALL)
NAMED_WIDTH = 20
"""The width of a field of `-O` that names none."""


class NoField(Exception):
    """There is no field of this name."""


@dataclass(frozen=True, slots=True)
class Column[R]:
    """One column, and what stands behind its value."""

    header: str
    value: Callable[[R], str]
    width: int | None = None
    right: bool = False
    after: str = ""
    cut: bool = True

    def cell(self, text: str) -> str:
        """A text as it stands in the column."""
        if not self.width:
            return text + self.after
        kept = text[: self.width] if self.cut else text
        return (kept.rjust(self.width) if self.right else kept.ljust(self.width)) + self.after

    def top(self) -> str:
        """The header as it stands in the column."""
        return Column(self.header, self.value, self.width, self.right, self.after).cell(self.header)


@dataclass(frozen=True, slots=True)
class Field[R]:
    """What a format can name. `cut`: whether a value that is longer than its column loses its end."""

    header: str
    value: Callable[[R], str]
    cut: bool = True


def by_letters[R](form: str, fields: Mapping[str, Field[R]]) -> list[Column[R]]:
    """The columns of a format of `-o`. A letter without a meaning is literal text. Raises NoField without a field."""
    columns: list[Column[R]] = []
    literal, place = "", 0
    for found in _FIELD.finditer(form):
        literal += form[place : found.start()]
        place = found.end()
        if found[3] not in fields:
            literal += found[0]
            continue
        if columns:
            columns[-1] = _followed(columns[-1], literal)
        elif literal:
            columns.append(Column("", lambda _record: "", after=literal))
        field = fields[found[3]]
        width = int(found[2]) if found[2] else None
        columns.append(Column(field.header, field.value, width, bool(found[1]), cut=field.cut))
        literal = ""
    literal += form[place:]
    if not columns:
        raise NoField(form)
    columns[-1] = _followed(columns[-1], literal)
    return columns


def by_names[R](form: str, fields: Mapping[str, Field[R]]) -> list[Column[R]]:
    """The columns of a list of `-O`, whose names have any case. Raises NoField."""
    known = {name.lower(): field for name, field in fields.items()}
    columns: list[Column[R]] = []
    for item in form.split(","):
        found = _NAMED.fullmatch(item.strip())
        if found is None or found[1].lower() not in known:
            raise NoField(item.strip())
        field = known[found[1].lower()]
        width = int(found[3]) if found[3] else NAMED_WIDTH
        columns.append(Column(field.header, field.value, width, bool(found[2]), found[4] or "", field.cut))
    return columns


def lines[R](columns: Sequence[Column[R]], records: Iterable[R], *, header: bool) -> list[str]:
    """The header, if it is wanted, and a line for each record."""
    top = ["".join(each.top() for each in columns)] if header else []
    return top + ["".join(each.cell(each.value(record)) for each in columns) for record in records]


def in_columns(items: Sequence[str], count: int) -> str:
    """Lines with so many items each, as the lists of fields are printed."""
    return "".join("".join(items[place : place + count]) + "\n" for place in range(0, len(items), count))


def _followed[R](column: Column[R], text: str) -> Column[R]:
    return replace(column, after=column.after + text)
