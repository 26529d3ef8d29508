"""How a long step of the lab tells what it does right now."""

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
"""Called with a few words when a step begins; the step lasts until the same asyncio task begins another or ends."""


def silent(step: str) -> None:
    """Tell nobody."""


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
    """The running steps as one renderable; ended ones are left behind as plain lines with their time."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._running: dict[Hashable, _Step] = {}

    def begin(self, what: str) -> None:
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no event loop: everything is one after the other
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
    """Show steps on a console (standard error when none is given).

    On a terminal each running step turns with its elapsed seconds; elsewhere it is a plain line when it begins and
    one when it ends. A step during which the block or its task fails is not told as ended.
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
