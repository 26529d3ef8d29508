"""Shows the demo: on a terminal a live table of jobs, workers and stage times, elsewhere plain lines."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from clusterra_contracts.identity import now
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from clusterra_lab.demo.demo import STAGES, Board, Report, Run

_COLOURS = {"PENDING": "yellow", "RUNNING": "cyan", "COMPLETED": "green"}
_LINES = 8
_PICTURE_COLUMNS = 132


class View:
    """Draws the board, and keeps the last one for `save`."""

    def __init__(self, draw: Callable[[Board], None]) -> None:
        self._draw = draw
        self._last: Board | None = None

    def show(self, board: Board) -> None:
        """Draw the board; call this after every change."""
        self._last = board
        self._draw(board)

    def save(self, file: Path, report: Report) -> None:
        """Write the last board and the summary as an SVG."""
        with Path(os.devnull).open("w") as nowhere:
            paper = Console(record=True, width=_PICTURE_COLUMNS, file=nowhere, force_terminal=True)
            if self._last is not None:
                paper.print(_screen(self._last))
            paper.print(summary(report))
            paper.save_svg(str(file), title="make demo")


@contextmanager
def view(console: Console) -> Iterator[View]:
    """A live table on a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        yield View(_Lines(console).show)
        return
    with Live(console=console, refresh_per_second=8) as live:
        yield View(lambda board: live.update(_screen(board)))


class _Lines:
    """Prints the changes since the last call, for logs and CI."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._states: dict[str, str] = {}
        self._phase = ""
        self._workers: dict[str, int] | None = None

    def show(self, board: Board) -> None:
        if board.phase != self._phase:
            self._phase = board.phase
            self._print(board, board.phase)
        for run in board.runs:
            if self._states.get(run.job_id) != run.state:
                self._states[run.job_id] = run.state
                self._print(board, f"job {run.job_id} ({run.job.name}) {run.state}")
        if board.observer.workers != self._workers:
            self._workers = board.observer.workers
            self._print(board, f"workers: {_workers(self._workers)}")

    def _print(self, board: Board, line: str) -> None:
        self._console.print(f"{(now() - board.began).total_seconds():7.2f} s  {line}", highlight=False)


def _workers(workers: dict[str, int] | None) -> str:
    if workers is None:
        return "not known yet"
    return ", ".join(f"{count} {shape}" for shape, count in sorted(workers.items())) or "none"


def _rows(runs: list[Run]) -> Iterator[tuple[str, Run, list[Run]]]:
    """One row per job: its id, the run whose times are shown, and all its runs.

    The tasks of an array share a row, with the times of the first task that has reached a stage.
    """
    jobs: dict[str, list[Run]] = {}
    for run in runs:
        jobs.setdefault(run.submitted.job_id, []).append(run)
    for job_id, tasks in jobs.items():
        yield job_id, next((task for task in tasks if task.stages), tasks[0]), tasks


def _table(board: Board) -> Table:
    table = Table(title="Jobs", title_justify="left", expand=True)
    for column in ("job", "name", "user", "state"):
        table.add_column(column)
    for stage in STAGES[1:]:
        table.add_column(stage, justify="right")
    for job_id, shown, tasks in _rows(board.runs):
        counts: dict[str, int] = {}
        for task in tasks:
            counts[task.state] = counts.get(task.state, 0) + 1
        state = Text(" ").join(
            Text(f"{count} {name}" if len(tasks) > 1 else name, _COLOURS.get(name, "red"))
            for name, count in counts.items()
        )
        times = (shown.stages.get(stage) for stage in STAGES[1:])
        cells = ("·" if time is None else f"{time:.2f}" for time in times)
        table.add_row(job_id, shown.job.name, shown.user.profile.name, state, *cells)
    return table


def _screen(board: Board) -> RenderableType:
    seconds = (now() - board.began).total_seconds()
    workers = Text(f"Workers: {_workers(board.observer.workers)}", "bold")
    log = Panel("\n".join(board.log[-_LINES:]), title=f"log of job {board.followed}", height=_LINES + 2)
    activity = Panel("\n".join(board.activity[-_LINES:]), title="events", height=_LINES + 2)
    head = Text(f"{seconds:6.1f} s  {board.phase}", "bold")
    return Group(head, _table(board), workers, Columns([log, activity], expand=True, equal=True))


def summary(report: Report) -> RenderableType:
    """The result in one line, with the problems below it."""
    workers = report.workers
    line = (
        f"{len(report.jobs)} jobs and array tasks,"
        f" workers {workers['before']} → {workers['peak']} → {workers['after']}, {report.seconds_total:.1f} s"
    )
    if report.ok:
        return Text(f"✓ {line}", "bold green")
    return Group(Text(f"✗ {line}", "bold red"), *(Text(f"  {problem}", "red") for problem in report.problems))
