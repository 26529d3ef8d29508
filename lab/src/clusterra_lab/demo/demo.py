"""`lab demo`: real jobs of two users run from submit to output, and the fleet scales back to zero."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from clusterra_contracts.identity import now
from clusterra_contracts.job_states import ENDED

from clusterra_lab.demo.observer import Observer, observe
from clusterra_lab.demo.scenario import DEMO_JOBS, DemoJob, Output, read_output
from clusterra_lab.demo.site import DemoSite
from clusterra_lab.machine.process import until
from clusterra_lab.parts.patience import AWAY, patiently, resumed
from clusterra_lab.parts.user import SubmittedJob, User

EMAILS = ("ada@acme.example", "grace@acme.example")
JOBS_SECONDS = 120.0
ASK_SECONDS = 10.0
STAGES = ("accepted", "snapshot", "decided", "published", "applied", "registered", "running", "ended")


@dataclass
class Run:
    """One run: a job of the demo, or one task of its array."""

    job: DemoJob
    user: User
    submitted: SubmittedJob
    job_id: str
    state: str = "PENDING"
    output: Output | None = None
    stages: dict[str, float | None] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether Slurm reports a final state."""
        return self.state in ENDED

    @property
    def verified(self) -> bool:
        """Whether it printed exactly the expected lines, as the user who submitted it."""
        return (
            self.output is not None
            and self.output.lines == self.job.expected(self.job_id)
            and self.output.uid == self.user.profile.uid
        )


@dataclass
class Board:
    """The state that the live view shows."""

    observer: Observer
    began: datetime
    runs: list[Run] = field(default_factory=list)
    followed: str = ""
    log: list[str] = field(default_factory=list)
    activity: list[str] = field(default_factory=list)
    phase: str = "logging in"


@dataclass(frozen=True)
class Report:
    """The content of demo.json."""

    ok: bool
    problems: tuple[str, ...]
    jobs: tuple[dict[str, Any], ...]
    workers: dict[str, int | None]
    by_shape: dict[str, int]
    seconds_total: float

    def write(self, file: Path) -> None:
        """Write the report to `file` as JSON."""
        content = {
            "ok": self.ok,
            "problems": self.problems,
            "jobs": self.jobs,
            "workers": self.workers,
            "by_shape": self.by_shape,
            "seconds_total": round(self.seconds_total, 3),
        }
        file.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")


async def run_demo(
    site: DemoSite, show: Callable[[Board], None], *, began: datetime, jobs_seconds: float = JOBS_SECONDS
) -> Report:
    """Submit all jobs together, wait until they have ended and the fleet is empty, and report.

    The jobs may take `jobs_seconds`, and the removal of the workers half as long. `show` is called after every change
    of the board. `began` is the time at which the user started the demo.
    """
    async with AsyncExitStack() as opened:
        observer = await opened.enter_async_context(observe(site.bus, site.cluster))
        board = Board(observer, began)
        show(board)
        await until(lambda: observer.workers is not None, seconds=20, what="the edge-agent's first heartbeat")
        before = sum((observer.workers or {}).values())
        users = [await opened.enter_async_context(site.user(email)) for email in EMAILS]
        await opened.enter_async_context(_task(_record_events(board, users[0])))

        board.phase = "submitting"
        submitted = await asyncio.gather(*(_submit(users[job.user], job) for job in DEMO_JOBS))
        for job, answer in zip(DEMO_JOBS, submitted, strict=True):
            board.runs += [Run(job, users[job.user], answer, job_id) for job_id in job.job_ids(answer.job_id)]
        await opened.enter_async_context(_task(_record_log(board, board.runs[0])))
        await opened.enter_async_context(_task(_ask_for_states(board)))

        board.phase = "running the jobs"
        problems = await _follow(
            board, show, lambda: all(run.ended for run in board.runs), jobs_seconds, "the end of all jobs"
        )
        for run in board.runs:
            run.output = read_output(await patiently(_output_of(run))) if run.state == "COMPLETED" else None
            run.stages = _stages(run, observer, site)
        board.phase = "waiting for an empty fleet"
        problems += await _follow(board, show, lambda: observer.workers == {}, jobs_seconds / 2, "an empty fleet")
        board.phase = "done"
        show(board)
        return _report(board, before, problems)


async def _submit(user: User, job: DemoJob) -> SubmittedJob:
    key = secrets.token_hex(16)
    return await patiently(lambda: user.submit(job.script, {"name": job.name, **job.options}, key=key))


def _output_of(run: Run) -> Callable[[], Awaitable[str]]:
    return lambda: run.user.output(run.job_id)


@asynccontextmanager
async def _task(work: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _record_events(board: Board, user: User) -> None:
    async for event in resumed(lambda last: user.activity(after=last)):
        if event.event != "reset":
            fact = orjson.loads(event.data)
            board.activity.append(f"{event.id:>5}  {fact['type'].removeprefix('cloud.clusterra.')}  {fact['subject']}")


async def _ask_for_states(board: Board) -> None:
    """Ask the gateway for the states of jobs: events of a time in which NATS is away do not reach the observer."""
    while True:
        await asyncio.sleep(ASK_SECONDS)
        for run in board.runs:
            if not run.ended:
                try:
                    state = (await run.user.job(run.job_id)).state
                except AWAY:
                    break
                # An event may have told the end meanwhile: an answer from before does not undo it.
                if board.observer.states.get(run.job_id) not in ENDED:
                    board.observer.states[run.job_id] = state


async def _record_log(board: Board, run: Run) -> None:
    board.followed = run.job_id
    async for event in resumed(lambda last: run.user.follow(run.job_id, after=last)):
        if event.event == "end":
            board.log.append("(end of the job)")
            return
        board.log += event.data.splitlines()


async def _follow(
    board: Board, show: Callable[[Board], None], finished: Callable[[], bool], seconds: float, what: str
) -> list[str]:
    """Refresh the board until `finished`; returns a problem text when that takes longer than `seconds`."""

    async def refresh() -> bool:
        for run in board.runs:
            run.state = board.observer.states.get(run.job_id, "PENDING")
        show(board)
        return finished()

    try:
        await until(refresh, seconds=seconds, what=what, every=0.1)
    except TimeoutError as error:
        return [str(error)]
    return []


def _stages(run: Run, observer: Observer, site: DemoSite) -> dict[str, float | None]:
    accepted = run.submitted.accepted_at
    moments: dict[str, datetime | None] = {"accepted": accepted}
    if run.output is not None:
        running = observer.job_events.get((run.job_id, "job.running"))
        nodes = tuple(getattr(running.data, "nodes", ())) if running else (run.output.node,)
        observed = observer.stages(run.job_id, accepted, run.output.started_at)
        registrations = (site.registered_at(node) or observer.registered.get(node) for node in nodes)
        registered = max(filter(None, registrations), default=None)
        moments |= vars(observed) | {"running": run.output.started_at, "ended": run.output.ended_at}
        if registered is not None and registered >= accepted:
            moments["registered"] = registered
    return {
        name: round((moment - accepted).total_seconds(), 3) if (moment := moments.get(name)) else None
        for name in STAGES
    }


def _report(board: Board, before: int, problems: Sequence[str]) -> Report:
    found = list(problems)
    for run in board.runs:
        if run.state != "COMPLETED":
            found.append(f"job {run.job_id} ({run.job.name}) is {run.state}")
        elif not run.verified:
            found.append(f"job {run.job_id} ({run.job.name}) did not print the expected lines: {run.output}")
    after = sum(board.observer.workers.values()) if board.observer.workers is not None else None
    if board.observer.total_peak == 0:
        found.append("no heartbeat ever named a worker")
    if not board.log or board.log[-1] != "(end of the job)":
        found.append(f"the log stream of job {board.followed} never ended")
    if not board.activity:
        found.append("the event stream delivered no event")
    return Report(
        ok=not found and before == 0 and after == 0,
        problems=tuple(found),
        jobs=tuple(
            {
                "id": run.job_id,
                "name": run.job.name,
                "user": run.user.profile.name,
                "uid_in_job": run.output.uid if run.output else None,
                "state": run.state,
                "output_verified": run.verified,
                "stages": run.stages,
            }
            for run in board.runs
        ),
        workers={"before": before, "peak": board.observer.total_peak, "after": after},
        by_shape=dict(sorted(board.observer.workers_peak.items())),
        seconds_total=(now() - board.began).total_seconds(),
    )
