"""The rows of jobs on the screen. Only the rows that are seen are drawn, so that long queues cost little.

All texts go through `Text`, which knows no markup, and through `one_line`, which makes control characters visible.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar

from rich.cells import set_cell_size
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widget import Widget

from clusterra_cli.live.records import Job
from clusterra_cli.live.state import State
from clusterra_cli.live.view import cost, elapsed
from clusterra_cli.output import duration, money, one_line

_WIDTHS = (("JOB", 10), ("USER", 9), ("STATE", 10), ("TIME", 11), ("COST", 9))
_RIGHT = frozenset({"JOB", "TIME", "COST"})


def cell(text: object, width: int, *, right: bool = False) -> str:
    """A text of exactly this width on a terminal; what is too long ends with an ellipsis."""
    shown = one_line(text)
    fitted = set_cell_size(shown, width)
    if fitted.rstrip() != shown.rstrip():
        return set_cell_size(shown, width - 1) + "…" if width > 1 else fitted
    return " " * (len(fitted) - len(fitted.rstrip())) + fitted.rstrip() if right else fitted


def where(job: Job) -> str:
    """As squeue: the nodes of a job that has some, or why it waits or failed."""
    if job.nodes:
        return ",".join(job.nodes)
    return f"({job.reason})" if job.reason else ""


class JobTable(Widget, can_focus=True):
    """The jobs, one of which is chosen. The choice stays with its job; at the top it stays with the first row.

    So whoever has not moved sees what comes first.
    """

    DEFAULT_CSS = "JobTable { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("home", "move(-1000000)", "first", show=False),
        Binding("end", "move(1000000)", "last", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._state = State()
        self._jobs: Sequence[Job] = ()
        self._now = datetime.now(UTC)
        self._at = 0
        self._first = 0

    @property
    def chosen(self) -> Job | None:
        """The chosen job; None where there are no jobs."""
        return self._jobs[self._at] if self._at < len(self._jobs) else None

    def show(self, state: State, jobs: Sequence[Job], now: datetime) -> None:
        """Draw these jobs."""
        chosen = self.chosen
        self._state, self._jobs, self._now = state, jobs, now
        if chosen is not None and self._at > 0:
            same = (place for place, each in enumerate(jobs) if each.job_id == chosen.job_id)
            self._at = next(same, self._at)
        self._at = max(0, min(self._at, len(jobs) - 1))
        self.refresh()

    def action_move(self, rows: int) -> None:
        """Choose another job."""
        self._at = max(0, min(self._at + rows, len(self._jobs) - 1))
        self.refresh()

    def action_page(self, pages: int) -> None:
        """Choose a job a page away."""
        self.action_move(pages * max(1, self.size.height - 2))

    def render(self) -> Text:
        """The title, and the rows that fit below it."""
        rows, width = max(1, self.size.height - 1), self.size.width
        self._first = max(self._at - rows + 1, min(self._first, self._at, max(0, len(self._jobs) - rows)))
        fixed = sum(each for _, each in _WIDTHS) + len(_WIDTHS)
        name = max(8, (width - fixed - 1) // 2)
        rest = max(0, width - fixed - name - 1)
        columns = [*_WIDTHS, ("NAME", name), ("NODES OR REASON", rest)]
        lines = [(" ".join(cell(title, size, right=title in _RIGHT) for title, size in columns), "bold")]
        for place, job in enumerate(self._jobs[self._first : self._first + rows], self._first):
            style = "reverse" if place == self._at else "dim" if job.ended else ""
            texts = self._texts(job)
            lines.append(
                (
                    " ".join(
                        cell(text, size, right=title in _RIGHT)
                        for text, (title, size) in zip(texts, columns, strict=True)
                    ),
                    style,
                )
            )
        if not self._jobs:
            lines.append(("no jobs", "dim"))
        return Text("\n", no_wrap=True, end="").join(Text(set_cell_size(line, width), style) for line, style in lines)

    def _texts(self, job: Job) -> Sequence[object]:
        return (
            job.job_id if not job.array_tasks else f"{job.job_id}_[{job.array_tasks}]",
            job.user,
            job.state,
            duration(elapsed(job, self._now)),
            money(cost(self._state, job, self._now)),
            job.name,
            where(job),
        )
