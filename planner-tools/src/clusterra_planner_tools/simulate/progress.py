"""Shows the progress of a simulation on standard error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_STEPS = 200
"""How often a progress bar is updated; a simulation has tens of thousands of moments."""
_LINES = 5
"""How many lines are written where there is no terminal."""


@contextmanager
def jobs_progress(description: str, jobs: int, console: Console | None = None) -> Iterator[Callable[[int], None]]:
    """Show how many jobs have ended. The yielded function must be called with that number."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield _stepwise(
            jobs, _LINES, lambda ended: console.print(f"  {description}: {ended} of {jobs} jobs have ended")
        )
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("jobs"), TimeElapsedColumn(),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(description, total=jobs)
        yield _stepwise(jobs, _STEPS, lambda ended: bar.update(task, completed=ended))


def _stepwise(jobs: int, steps: int, show: Callable[[int], None]) -> Callable[[int], None]:
    shown = 0

    def update(ended: int) -> None:
        nonlocal shown
        step = ended * steps // max(jobs, 1)
        if step > shown:
            shown = step
            show(ended)

    return update
