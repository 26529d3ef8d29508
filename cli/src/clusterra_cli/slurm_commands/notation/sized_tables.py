"""Tables of Slurm's accounting commands, whose fields have a width: `Account%256`, `State%-20`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

FIELD = re.compile(r"([A-Za-z]+)(?:%(-?[0-9]{1,6}))?")
"""A field of `--format`: its name, and its width, which is negative for a value on the left."""


@dataclass(frozen=True, slots=True)
class SizedColumn:
    """A field and its width."""

    name: str
    width: int

    def cell(self, value: str) -> str:
        """A value in the column. A cut one ends with `+`."""
        wide = abs(self.width)
        shown = value if len(value) <= wide else value[: wide - 1] + "+"
        return shown.ljust(wide) if self.width < 0 else shown.rjust(wide)


def sized_lines(columns: Sequence[SizedColumn], rows: Sequence[Sequence[str]], *, header: bool) -> list[str]:
    """The lines of a table: names, dashes, and values."""
    top: list[str] = []
    if header:
        # A name that is too long is cut as well, but without the sign.
        top = ["".join(f"{each.cell(each.name[: abs(each.width)])} " for each in columns)]
        top.append("".join("-" * abs(each.width) + " " for each in columns))
    return top + ["".join(f"{column.cell(value)} " for column, value in zip(columns, row, strict=True)) for row in rows]


def parsable_lines(
    columns: Sequence[SizedColumn], rows: Sequence[Sequence[str]], *, header: bool, mark: str = "|", ending: str = ""
) -> list[str]:
    """The lines of a table for programs: values with a mark between them. `ending` stands at the end of each line."""
    texts = [[each.name for each in columns], *rows] if header else rows
    return [mark.join(each) + ending for each in texts]
