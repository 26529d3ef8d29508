"""The screens of one job: all that is known of it, and its output as it is written."""

from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import ClassVar

from clusterra import AsyncClient
from clusterra.errors import ApiError, ClusterraError
from clusterra.models import Explanation, JobRecord
from clusterra.operations.outputs import Ended, OutputText, Restarted
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import RichLog, Static

from clusterra_cli.live.records import Job
from clusterra_cli.live.state import State
from clusterra_cli.output import duration, moment, money, one_line, visible

TAIL_LINES = 200
MAX_LINES = 10_000
"""The most lines of an output that are kept."""
MAX_LINE = 4_000
"""Longer lines are broken."""
_LEAVE: list[BindingType] = [Binding("escape,q", "app.pop_screen", "back")]


class JobScreen(Screen[None]):
    """What is known of a job. It is read when it is opened, and again when an event changed the job."""

    BINDINGS: ClassVar[list[BindingType]] = _LEAVE

    def __init__(self, client: AsyncClient, job_id: str, state: Callable[[], State]) -> None:
        super().__init__()
        self._client = client
        self._job_id = job_id
        self._state = state
        self._shown: Job | None = None

    def compose(self) -> ComposeResult:
        """The text, and the key that leads back."""
        with VerticalScroll():
            yield Static(Text("…"), id="about")
        yield Static(Text("Esc back", style="reverse"))

    def on_mount(self) -> None:
        """Read the job."""
        self._shown = self._state().jobs.get(self._job_id)
        self.run_worker(self._read(), exclusive=True)

    def changed(self) -> None:
        """Read the job again if it has changed. A job that has left the queue stays as it was."""
        job = self._state().jobs.get(self._job_id)
        if job is not None and job != self._shown:
            self._shown = job
            self.run_worker(self._read(), exclusive=True)

    async def _read(self) -> None:
        try:
            job = self._client.job(self._job_id)
            text = about(await job.refresh(), await job.why())
        except ClusterraError as error:
            text = visible(error)
        self.query_one("#about", Static).update(Text(text))


def about(record: JobRecord, explanation: Explanation) -> str:
    """A job for people, without control characters."""
    fields: Mapping[str, object] = {
        "job": record.job_id,
        "name": record.name,
        "user": record.user,
        "account": record.account,
        "state": record.state,
        "reason": "" if record.reason in ("", "None") else record.reason,
        "why": explanation.text,
        "expected start": moment(explanation.expected_start),
        "bought for it": ", ".join(f"{each.workers} × {each.shape} ({each.reason})" for each in explanation.bought),
        "runs on": ", ".join(
            f"{each.worker or 'a new worker'} ({each.shape})" if each.shape else each.worker or ""
            for each in explanation.places
        ),
        "nodes": ",".join(record.nodes) or record.node_count,
        "cpus": record.cpus,
        "gres": record.gres,
        "time limit": duration(record.time_limit_seconds),
        "submitted": moment(record.submitted_at),
        "started": moment(record.started_at),
        "ended": moment(record.ended_at),
        "exit code": record.exit_code,
        "signal": record.signal,
        "array tasks": record.array_tasks,
        "output": record.standard_output,
        "errors": record.standard_error,
        "cost": "" if record.cost is None else money(record.cost.total) or "unknown",
    }
    shown = {name: value for name, value in fields.items() if value not in (None, "")}
    return "\n".join(f"{name:<15} {one_line(value)}" for name, value in shown.items())


class OutputScreen(Screen[None]):
    """The last lines of a job's output, and what it writes from then on."""

    BINDINGS: ClassVar[list[BindingType]] = _LEAVE

    def __init__(self, client: AsyncClient, job_id: str) -> None:
        super().__init__()
        self._client = client
        self._job_id = job_id
        self._rest = ""

    def compose(self) -> ComposeResult:
        """The output, and the key that leads back."""
        yield RichLog(max_lines=MAX_LINES, wrap=True, markup=False, highlight=False, min_width=1)
        yield Static(Text(f"job {self._job_id}   Esc back", style="reverse"), id="foot")

    def on_mount(self) -> None:
        """Begin to follow."""
        self.run_worker(self._follow(), exclusive=True)

    async def _follow(self) -> None:
        foot = self.query_one("#foot", Static)
        try:
            async with aclosing(self._client.job(self._job_id).pieces(TAIL_LINES)) as pieces:
                async for piece in pieces:
                    match piece:
                        case OutputText(text=text):
                            self._write(text)
                        case Restarted():
                            self.query_one(RichLog).clear()
                            self._rest = ""
                        case Ended(state=state):
                            foot.update(Text(f"job {self._job_id} has ended: {one_line(state)}   Esc back", "reverse"))
        except ApiError as error:
            foot.update(Text(f"{one_line(error.detail)}   Esc back", "reverse"))
        except ClusterraError as error:
            foot.update(Text(f"{one_line(error)}   Esc back", "reverse"))
        if self._rest:
            self._write("\n")

    def _write(self, text: str) -> None:
        """Write whole lines; the beginning of a line waits for its end."""
        *lines, self._rest = (self._rest + text).split("\n")
        if len(self._rest) > MAX_LINE:
            lines, self._rest = [*lines, self._rest], ""
        log = self.query_one(RichLog)
        for line in lines:
            for at in range(0, max(1, len(line)), MAX_LINE):
                log.write(Text(visible(line[at : at + MAX_LINE].removesuffix("\r")).expandtabs(8)))
