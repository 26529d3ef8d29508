"""What commands print: tables and texts for people, JSON for programs. Nothing else writes to stdout or stderr.

Answers go to stdout; warnings, progress and errors go to stderr. Texts of other people never reach the terminal with
control characters, which could hide or rewrite what it shows.
"""

import codecs
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Control characters, those that change the direction of a text, and lone surrogates; no line end and no tab."""
_KEPT = re.compile("\x1b\\[[0-9;:]{0,40}m|[\r\b\f]")
"""What a job's output may do on a terminal: colours, and going back in its line."""
_UNFINISHED = re.compile("\x1b(\\[[0-9;:]{0,40})?$")
_UNLIMITED_COLUMNS = 100_000


def visible(text: object) -> str:
    """A text with its control characters as escapes, such as `\\x1b`."""
    return _CONTROLS.sub(_escape, str(text))


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "surrogatepass").decode()


def _safe(json_text: str) -> str:
    """JSON in which also those control characters are escapes that JSON itself lets pass."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", json_text)


def one_line(text: object) -> str:
    """A text for a cell of a table: line ends and tabs are escapes too."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def plain(value: Any) -> Any:
    """A value as the API has returned it, for JSON: models become objects."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value.isoformat() if isinstance(value, datetime) else value


@dataclass(frozen=True)
class Column:
    """A column of a table. `right`: numbers, which end below each other."""

    title: str
    right: bool = False


@dataclass(frozen=True)
class Output:
    """How one command answers: as JSON, as ids only, or for people."""

    json: bool = False
    quiet: bool = False

    def document(self, value: Any) -> None:
        """Print a whole answer as JSON."""
        _write(_safe(json.dumps(plain(value), indent=2, ensure_ascii=not _unicode())) + "\n")

    def json_line(self, value: Any) -> None:
        """Print one item of a stream as a line of JSON."""
        _write(_safe(json.dumps(plain(value), separators=(",", ":"), ensure_ascii=not _unicode())) + "\n")

    def text(self, text: str) -> None:
        """Print a line, or several lines."""
        _write(visible(text).rstrip("\n") + "\n")

    def program(self, source: str) -> None:
        """Print a program that somebody else may have written: on a terminal nothing of it rewrites or hides a line."""
        if sys.stdout.isatty():
            self.text(source)
        else:
            _write(source)

    def ids(self, ids: Iterable[str]) -> None:
        """Print ids below each other."""
        _write("".join(f"{visible(each)}\n" for each in ids))

    def done(self, ident: str, text: str, *, outcome: str) -> None:
        """Print that something was changed: as a line of JSON, as its id, or as a text."""
        if self.json:
            self.json_line({"id": ident, "outcome": outcome})
        elif self.quiet:
            self.ids([ident])
        else:
            self.text(text)

    def listed[T](
        self,
        found: Sequence[T],
        columns: Sequence[Column],
        row: Callable[[T], Sequence[object]],
        ident: Callable[[T], str],
    ) -> None:
        """Print a list as JSON, as its ids, or as a table."""
        if self.json:
            self.document(found)
        elif self.quiet:
            self.ids(map(ident, found))
        else:
            self.table(columns, map(row, found))

    def one(self, value: Any, ident: str, shown: str | Mapping[str, object]) -> None:
        """Print one record as JSON, as its id, or for people: as a text, or as names with their values."""
        if self.json:
            self.document(value)
        elif self.quiet:
            self.ids([ident])
        elif isinstance(shown, str):
            self.text(shown)
        else:
            self.fields(shown)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> None:
        """Print a table. It fits the width of a terminal; elsewhere nothing is cut off."""
        _write(_table(columns, rows))

    def fields(self, fields: Mapping[str, object]) -> None:
        """Print names with their values below each other, those without a value left out."""
        known = {name: value for name, value in fields.items() if value not in (None, "", (), [])}
        width = max(map(len, known), default=0)
        _write("".join(f"{name:<{width}}  {visible(value)}\n" for name, value in known.items()))


def _table(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=None, pad_edge=False, show_edge=False, header_style="bold" if colours() else "", padding=(0, 2, 0, 0)
    )
    for column in columns:
        justify = "right" if column.right else "left"
        table.add_column(column.title, justify=justify, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(one_line("" if cell is None else cell)) for cell in row))
    terminal = sys.stdout.isatty()
    console = Console(width=None if terminal else _UNLIMITED_COLUMNS, no_color=not colours(), highlight=False)
    with console.capture() as captured:
        console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def colours() -> bool:
    """Whether stdout is a terminal whose user wants colours (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def note(text: str) -> None:
    """Print something for people on stderr: progress, or what to do next."""
    sys.stderr.write(visible(text).rstrip("\n") + "\n")
    sys.stderr.flush()


def warn(text: str) -> None:
    """Warn on stderr."""
    note(f"warning: {text}")


class JobText:
    """Prints a job's output: on a terminal without what could rewrite it, but with colours; elsewhere as it is."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._rest = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write_bytes(self, part: bytes) -> None:
        """Print a part: elsewhere than on a terminal the very same bytes."""
        if self._terminal:
            self.write(self._decoder.decode(part))
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(part)

    def write(self, text: str) -> None:
        """Print a part. What may be the beginning of an escape waits for the next one."""
        if self._terminal:
            text = self._rest + text
            unfinished = _UNFINISHED.search(text)
            at = unfinished.start() if unfinished else len(text)
            self._rest, text = text[at:], _shown(text[:at])
        _write(text)

    def end(self) -> None:
        """Print what still waits."""
        rest, self._rest = self._rest + self._decoder.decode(b"", final=True), ""
        _write(_shown(rest))


def _shown(text: str) -> str:
    parts, at = [], 0
    for kept in _KEPT.finditer(text):
        parts += [visible(text[at : kept.start()]), kept[0]]
        at = kept.end()
    return "".join([*parts, visible(text[at:])])


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def moment(at: datetime | None) -> str:
    """A time for people, in the zone of this machine, to the second."""
    return "" if at is None else at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def duration(seconds: float | None) -> str:
    """A duration as Slurm writes it: `1-02:03:04`."""
    if seconds is None:
        return ""
    minutes, rest = divmod(int(max(0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}-{hours:02}:{minutes:02}:{rest:02}" if days else f"{hours:02}:{minutes:02}:{rest:02}"


def money(amount: Any) -> str:
    """An amount for people; empty where it is unknown."""
    if amount is None:
        return ""
    value = getattr(amount, "amount", amount)
    return f"${float(value):,.4f}" if abs(float(value)) < 1 else f"${float(value):,.2f}"
