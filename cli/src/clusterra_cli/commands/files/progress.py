"""What a copy of files shows: a bar on a terminal while it runs, and at its end what was copied."""

import sys
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

_WIDTH = 24


@contextmanager
def shown_progress(*, quiet: bool) -> "Iterator[Progress]":
    """The progress of one command: a bar on stderr where that is a terminal, and nothing elsewhere."""
    from clusterra.files.progress import SILENT, Progress

    if quiet or not sys.stderr.isatty():
        yield SILENT
        return

    from rich import progress as rich_progress
    from rich.console import Console

    columns = (
        rich_progress.BarColumn(_WIDTH),
        rich_progress.DownloadColumn(binary_units=True),
        rich_progress.TransferSpeedColumn(),
        rich_progress.TextColumn("{task.fields[files]}"),
    )
    with rich_progress.Progress(*columns, console=Console(file=sys.stderr)) as bar:
        task = bar.add_task("", total=None, files="")

        class Shown(Progress):
            def __init__(self) -> None:
                self._lock = Lock()
                self._files = self._finished = 0

            def planned(self, files: int, size: int) -> None:
                self._files = files
                bar.update(task, total=size)

            def transferred(self, size: int) -> None:
                bar.update(task, advance=size)

            def finished(self, path: str) -> None:
                with self._lock:
                    self._finished += 1
                    if self._files > 1:
                        bar.update(task, files=f"{self._finished}/{self._files} files")

        yield Shown()


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
