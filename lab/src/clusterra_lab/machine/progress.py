"""Shows the progress of long steps of the lab."""

import asyncio
import sys
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

type Progress = Callable[[str], None]
"""Called with a short description when a step begins. The step lasts until its asyncio task begins another or ends."""


def silent(step: str) -> None:
    """Show nothing."""


class _Step:
    def __init__(self, what: str) -> None:
        self.what = what
        self._began = time.monotonic()
        self._spinner = Spinner("dots")

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def __rich__(self) -> RenderableType:
        self._spinner.update(text=Text(f"{self.what} ({self.seconds:.0f} s)"))
        return self._spinner


class _Steps:
    """The running steps as one renderable; each finished step is printed as a plain line with its duration."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._running: dict[Hashable, _Step] = {}

    def begin(self, what: str) -> None:
        try:
            task = asyncio.current_task()
        except RuntimeError:  # without an event loop, steps follow each other
            task = None
        if task not in self._running and task is not None:
            task.add_done_callback(self._task_done)
        self._end(task)
        self._running[task] = _Step(what)
        if not self._console.is_terminal:
            self._console.print(Text(f"  {what} ..."))

    def end_all(self) -> None:
        for task in list(self._running):
            self._end(task)

    def _task_done(self, task: "asyncio.Task[object]") -> None:
        if not task.cancelled() and task.exception() is None:
            self._end(task)
        self._running.pop(task, None)

    def _end(self, task: Hashable) -> None:
        if (step := self._running.pop(task, None)) is not None:
            self._console.print(Text(f"✓ {step.what} ({step.seconds:.1f} s)"))

    def __rich__(self) -> RenderableType:
        return Group(*self._running.values())


@contextmanager
def console_progress(console: Console | None = None) -> Iterator[Progress]:
    """Show steps on a console (standard error by default).

    A terminal shows a spinner with the elapsed seconds of each running step. Elsewhere each step prints a line when it
    begins and one when it ends. A step during which the block or its task fails prints no end.
    """
    console = console or Console(file=sys.stderr)
    steps = _Steps(console)
    if console.is_terminal:
        with Live(steps, console=console, refresh_per_second=8, transient=True):
            yield steps.begin
            steps.end_all()
    else:
        yield steps.begin
        steps.end_all()
