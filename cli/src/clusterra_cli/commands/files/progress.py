"""What a copy of files shows: a bar on a terminal while it runs, and at its end what was copied."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

import typer

from clusterra_cli import exit_codes
from clusterra_cli.output import Output, note, one_line

if TYPE_CHECKING:
    from clusterra.files.progress import Progress
    from clusterra.files.trees import FolderReport

_SECONDS = 0.1
"""How often the bar is drawn."""
_WIDTH = 24


@contextmanager
def shown_progress(*, quiet: bool) -> "Iterator[Progress]":
    """The progress of one command: a bar on stderr where that is a terminal, and nothing elsewhere."""
    from clusterra.files.progress import SILENT, Progress

    if quiet or not sys.stderr.isatty():
        yield SILENT
        return

    class Bar(Progress):
        def __init__(self) -> None:
            self._lock = Lock()
            self._total = self._done = self._files = self._finished = 0
            self._began = self._drawn = time.monotonic()

        def planned(self, files: int, size: int) -> None:
            self._files, self._total = files, size

        def moved(self, size: int) -> None:
            with self._lock:
                self._done += size
                self._draw()

        def finished(self, path: str) -> None:
            with self._lock:
                self._finished += 1
                self._draw()

        def _draw(self, *, last: bool = False) -> None:
            at = time.monotonic()
            if not last and at < self._drawn + _SECONDS:
                return
            self._drawn = at
            part = min(1.0, self._done / self._total) if self._total else 0.0
            filled = round(part * _WIDTH)
            rate = size_text(self._done / max(at - self._began, 0.001))
            total = f" of {size_text(self._total)}" if self._total else ""
            files = f"  {self._finished}/{self._files} files" if self._files > 1 else ""
            line = f"[{'#' * filled}{' ' * (_WIDTH - filled)}] {size_text(self._done)}{total}  {rate}/s{files}"
            sys.stderr.write(f"\r{line:<78}"[:79])
            sys.stderr.flush()

        def end(self) -> None:
            if self._done or self._total:
                self._draw(last=True)
                sys.stderr.write("\n")

    bar = Bar()
    try:
        yield bar
    finally:
        bar.end()


@contextmanager
def local_errors() -> Iterator[None]:
    """Ends the command with 1 where a file of this machine cannot be read or written."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        where = "" if error.filename is None else f"{one_line(error.filename)}: "
        exit_codes.end(exit_codes.FAILED, f"{where}{error.strerror or error}")


def size_text(size: float) -> str:
    """A size for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def report(output: Output, done: "FolderReport", *, dry_run: bool = False) -> None:
    """Print what was done to a folder. Ends the command with 1 where something was not copied."""
    if output.json:
        output.document(
            {
                "copied": done.copied,
                "deleted": done.deleted,
                "unchanged": done.unchanged,
                "problems": [{"path": path, "reason": why} for path, why in done.problems],
            }
        )
    elif output.quiet:
        output.ids(map(one_line, done.copied))
    elif dry_run:
        output.ids(f"copy    {one_line(each)}" for each in done.copied)
        output.ids(f"delete  {one_line(each)}" for each in done.deleted)
    else:
        note(f"copied {len(done.copied)}, deleted {len(done.deleted)}, unchanged {done.unchanged}")
    for path, why in done.problems:
        note(f"error: {one_line(path)} was not copied: {one_line(why)}")
    if done.problems:
        raise typer.Exit(exit_codes.FAILED)
