"""An array with a task for each row of a table: the script tells each task its row in environment variables.

| variable | what |
|---|---|
| `ARRAY_ROW_<COLUMN>` | the row's value in this column, for each column |
| `CLUSTERRA_ARRAY_ROW_VARS` | the names of the columns, with commas between |
| `CLUSTERRA_ARRAY_MANIFEST` | the path of a file with the whole table |
| `CLUSTERRA_ARRAY_MANIFEST_FORMAT` | `csv` or `tsv` |

Rows are counted from 1; the header is no row.
"""

import csv
import hashlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from clusterra_templates.pieces import MAX_OUTPUT
from clusterra_templates.problems import ValueRefused

MAX_ROWS = 1000
MAX_COLUMNS = 50
MAX_CELL = 4096

_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True)
class Rows:
    """A table."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text: str
    """The table as it was given."""
    separator: str

    @property
    def format(self) -> str:
        """`csv` or `tsv`."""
        return "tsv" if self.separator == "\t" else "csv"


def read_rows(key: str, text: str, needed: Sequence[str]) -> Rows:
    """Read a table with a header, separated by commas or tabs. Raises ValueRefused, which names the line.

    `needed` are the columns that the table must have; with none, it may have any.
    """
    text = text.removeprefix("\ufeff")
    header = text.partition("\n")[0]
    separator = "\t" if "\t" in header else ","
    reader = csv.reader(io.StringIO(text), delimiter=separator, strict=True)
    try:
        columns = tuple(name.strip() for name in next(reader, []))
        _check_columns(key, columns, needed)
        rows: list[tuple[str, ...]] = []
        for row in reader:
            if not row:
                continue
            if len(row) != len(columns):
                raise ValueRefused(
                    key, f"line {reader.line_num} has {len(row)} values, and the header has {len(columns)} columns"
                )
            if any(len(cell) > MAX_CELL or "\n" in cell for cell in row):
                raise ValueRefused(key, f"line {reader.line_num}: a value is one line of at most {MAX_CELL} characters")
            rows.append(tuple(row))
            if len(rows) > MAX_ROWS:
                raise ValueRefused(key, f"it has more than {MAX_ROWS} rows: submit it in parts")
    except csv.Error as error:
        raise ValueRefused(key, f"line {reader.line_num} is no valid {separator!r}-separated line: {error}") from None
    if not rows:
        raise ValueRefused(key, "it has no rows: give a header, and a line for each task")
    return Rows(columns, tuple(rows), text, separator)


def _check_columns(key: str, columns: tuple[str, ...], needed: Sequence[str]) -> None:
    if not columns or len(columns) > MAX_COLUMNS:
        raise ValueRefused(key, f"its first line must name 1 to {MAX_COLUMNS} columns")
    for name in columns:
        if not _COLUMN.fullmatch(name):
            raise ValueRefused(key, f"the column {name[:40]!r} must have letters, digits and _ only")
    upper = [name.upper() for name in columns]
    if len(set(upper)) < len(upper):
        raise ValueRefused(key, "two columns have the same name")
    if missing := [name for name in needed if name not in columns]:
        raise ValueRefused(key, f"it has no column {missing[0]}: the template needs {', '.join(needed)}")


def directive(rows: Rows, at_once: int | None) -> str:
    """The line that makes the job an array."""
    limit = f"%{at_once}" if at_once is not None else ""
    return f"#SBATCH --array=1-{len(rows.rows)}{limit}\n"


def prologue(rows: Rows, needed: Sequence[str]) -> str:
    """The commands that tell a task its row. Raises ValueRefused for a table that is too large for a script.

    A task gets only the columns in `needed`, where there are some.
    """
    told = [index for index, name in enumerate(rows.columns) if not needed or name in needed]
    names = [rows.columns[index] for index in told]
    end = f"ROWS_{hashlib.sha256(rows.text.encode()).hexdigest()[:16]}"
    written = [
        'CLUSTERRA_ARRAY_MANIFEST="${TMPDIR:-/tmp}/clusterra-rows-${SLURM_JOB_ID:?}"\n',
        f"(umask 077; cat > \"$CLUSTERRA_ARRAY_MANIFEST\") <<'{end}'\n",
        rows.text if rows.text.endswith("\n") else f"{rows.text}\n",
        f"{end}\n",
        f"CLUSTERRA_ARRAY_MANIFEST_FORMAT={rows.format}\n",
        f"CLUSTERRA_ARRAY_ROW_VARS={','.join(names)}\n",
        "export CLUSTERRA_ARRAY_MANIFEST CLUSTERRA_ARRAY_MANIFEST_FORMAT CLUSTERRA_ARRAY_ROW_VARS\n",
        'case "${SLURM_ARRAY_TASK_ID:?}" in\n',
    ]
    for number, row in enumerate(rows.rows, start=1):
        values = " ".join(f"ARRAY_ROW_{rows.columns[index].upper()}={_quoted(row[index])}" for index in told)
        written.append(f"{number}) export {values};;\n")
    written.append("*) echo 'there is no row for this task' >&2; exit 1;;\nesac\n")
    text = "".join(written)
    if len(text) > MAX_OUTPUT // 2:
        raise ValueRefused(
            "rows", f"the table takes more than {MAX_OUTPUT // 2048} KiB of the script: give a shorter one"
        )
    return text


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "'\"'\"'") + "'"
