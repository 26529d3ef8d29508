"""The screen of `top`: the head with the fleet and the costs, the jobs below, and the keys."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import ClassVar

from clusterra import AsyncClient, AsyncJob
from clusterra.errors import ClusterraError, SignInNeeded
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from clusterra_cli.live.dialogs import Help, Line, Question
from clusterra_cli.live.feed import Feed
from clusterra_cli.live.head import head
from clusterra_cli.live.job_screens import JobScreen, OutputScreen
from clusterra_cli.live.records import Job
from clusterra_cli.live.state import without_ended
from clusterra_cli.live.table import JobTable
from clusterra_cli.live.view import ORDERS, View, shown
from clusterra_cli.output import one_line

REDRAW_SECONDS = 0.25
"""Between two drawings, however many events come."""
TICK_SECONDS = 1.0
_FOOT = "q quit Enter job l output c cancel h hold r release s sort t u m filter ? keys"


class TopApp(App[None]):
    """The application. `error` is why it has ended, if it was not ended by its user."""

    CSS = "#head { height: auto; } #foot { height: 1; } #head, #foot { text-wrap: nowrap; text-overflow: ellipsis; }"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", "quit", priority=True, show=False),
        Binding("s", "order", "sort"),
        Binding("S", "turn", "reverse"),
        Binding("t", "by_state", "state"),
        Binding("u", "by_user", "user"),
        Binding("m", "mine", "mine"),
        Binding("enter", "about", "job"),
        Binding("l", "output", "output"),
        Binding("c", "cancel", "cancel"),
        Binding("h", "hold", "hold"),
        Binding("r", "release", "release"),
        Binding("question_mark", "keys", "help"),
    ]

    def __init__(self, client: AsyncClient, user: str | None = None, view: View | None = None) -> None:
        super().__init__(ansi_color=True)
        self.error: Exception | None = None
        self.view = view or View()
        self.feed = Feed(client, user)
        self._client = client
        self._drawing = False
        self._read = False

    def compose(self) -> ComposeResult:
        """The head, the jobs, the keys."""
        yield Static(Text("reading…"), id="head")
        yield JobTable()
        yield Static(Text(_FOOT, "reverse", no_wrap=True, overflow="ellipsis"), id="foot")

    def on_mount(self) -> None:
        """Begin to follow the events, and let the times go on."""
        self._head, self._table = self.query_one("#head", Static), self.query_one(JobTable)
        self._table.focus()
        self.feed.changed = self._changed
        self.run_worker(self._follow(), exit_on_error=False)
        self.set_interval(TICK_SECONDS, self._draw)

    async def _follow(self) -> None:
        try:
            await self.feed.run()
        except Exception as error:
            self._end(error)

    def _end(self, error: Exception) -> None:
        self.error = error
        self.exit()

    def _changed(self) -> None:
        self._read = True
        if not self._drawing:
            self._drawing = True
            self.set_timer(REDRAW_SECONDS, self._draw)

    def _draw(self) -> None:
        self._drawing = False
        if not self._read or not self.screen_stack:  # nothing is read yet, or the application ends
            return
        now = datetime.now(UTC)
        self.feed.state = without_ended(self.feed.state, now)
        if isinstance(self.screen, JobScreen):
            self.screen.changed()
        jobs = shown(self.feed.state, self.view, now)
        self._head.update(head(self.feed, self.view, jobs, now))
        self._table.show(self.feed.state, jobs, now)

    def _seen(self, **changes: object) -> None:
        self.view = replace(self.view, **changes)  # type: ignore[arg-type]
        self._draw()

    def action_order(self) -> None:
        """Take the next order."""
        self._seen(order=ORDERS[(ORDERS.index(self.view.order) + 1) % len(ORDERS)])

    def action_turn(self) -> None:
        """Turn the order round."""
        self._seen(reverse=not self.view.reverse)

    def action_by_state(self) -> None:
        """Show the jobs of the next state; after the last one all."""
        states = sorted({job.state for job in self.feed.state.jobs.values()})
        now = next(iter(sorted(self.view.states)), "")
        later = [each for each in states if each > now]
        self._seen(states=frozenset(later[:1]))

    def action_by_user(self) -> None:
        """Ask for the user whose jobs are shown."""

        def answered(user: str | None) -> None:
            if user is not None:
                self._seen(user=user)

        self.push_screen(Line("only jobs of the user (empty: of all)", self.view.user), answered)

    async def action_mine(self) -> None:
        """Show only the caller's jobs, or all again."""
        if self.view.user:
            self._seen(user="")
            return
        await self._try("", lambda: self._only_mine())

    async def _only_mine(self) -> None:
        self._seen(user=(await self._client.me()).name)

    def action_keys(self) -> None:
        """Show the keys."""
        self.push_screen(Help())

    def action_about(self) -> None:
        """Show the chosen job."""
        if (job := self._table.chosen) is not None:
            self.push_screen(JobScreen(self._client, job.job_id, lambda: self.feed.state))

    def action_output(self) -> None:
        """Follow the output of the chosen job."""
        if (job := self._table.chosen) is not None:
            self.push_screen(OutputScreen(self._client, job.job_id))

    def action_cancel(self) -> None:
        """Cancel the chosen job, after a question that names it."""
        if (job := self._table.chosen) is None:
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self._change(job, "cancelled", lambda handle: handle.cancel())

        self.push_screen(Question(f"Cancel job {job.job_id} ({one_line(job.name)}) of {one_line(job.user)}?"), answered)

    def action_hold(self) -> None:
        """Hold the chosen job."""
        if (job := self._table.chosen) is not None:
            self._change(job, "held", lambda handle: handle.hold())

    def action_release(self) -> None:
        """Release the chosen job."""
        if (job := self._table.chosen) is not None:
            self._change(job, "released", lambda handle: handle.release())

    def _change(self, job: Job, done: str, change: Callable[[AsyncJob], Awaitable[None]]) -> None:
        handle = self._client.job(job.job_id)
        self.run_worker(self._try(f"job {job.job_id} is {done}", lambda: change(handle)))

    async def _try(self, done: str, change: Callable[[], Awaitable[None]]) -> None:
        try:
            await change()
        except SignInNeeded as error:
            self._end(error)
        except ClusterraError as error:
            self.notify(one_line(error), severity="error", markup=False)
        else:
            if done:
                self.notify(done, markup=False)
