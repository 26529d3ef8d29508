"""Answers what jobs and workers cost: rows of a report, a job's cost."""

import asyncio
import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import has_happened, now
from clusterra_contracts.rpc.costs import (
    MAX_COST_DAYS,
    MAX_RUN_COSTS,
    CostDimension,
    CostOfJob,
    CostPage,
    CostRow,
    JobCost,
    JobCosts,
    ReadCosts,
    ReadJobCost,
    ReadJobCosts,
    ReadRunCosts,
    RunCost,
    RunCosts,
)
from clusterra_contracts.rpc.reply import RpcError
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_events.ledger.account import Line, rates_at
from clusterra_events.ledger.charge import microseconds
from clusterra_events.ledger.facts import WorkerFacts
from clusterra_events.ledger.journal import MAX_RUNS, JobRun, Journal
from clusterra_events.ledger.statements import Statements, utc_day

_FIELDS: dict[CostDimension, tuple[str, ...]] = {
    "day": ("day",),
    "user": ("user", "uid"),
    "account": ("account",),
    "template": ("template",),
    "job": ("job_id", "name", "user", "uid", "account"),
    "worker": ("worker", "shape"),
    "shape": ("shape",),
}
"""The fields of a row that each dimension fills."""

type _Key = tuple[str, ...]


@dataclass(slots=True)
class Sum:
    """A sum of lines. An amount is known as soon as that of one line is."""

    micro_usd: int | None = None
    microseconds: int = 0
    stale: bool = False
    unknown: bool = False

    def add(self, line: Line) -> None:
        """Add a line."""
        if line.micro_usd is not None:
            self.micro_usd = (self.micro_usd or 0) + line.micro_usd
        self.microseconds += line.microseconds
        self.stale |= line.stale
        self.unknown |= line.unknown


@dataclass(frozen=True, slots=True)
class _JobLines:
    """The runs of a job that have started, and its lines."""

    started: Sequence[JobRun]
    lines: Sequence[Line]
    as_of: datetime
    cut: bool
    """Whether there are more runs than are read, or lines of their workers are not known."""

    def cost(self) -> JobCost:
        total = Sum()
        for line in self.lines:
            total.add(line)
        lasted = any(_lasted(run) for run in self.started)
        return JobCost(
            runs=len(self.started),
            open_runs=_open_runs(self.started),
            micro_usd=total.micro_usd if lasted else 0,
            as_of=self.as_of,
            stale=total.stale,
            unknown=total.unknown or (lasted and total.micro_usd is None) or self.cut,
        )


class Reports:
    """The handlers of the ledger's requests about one cluster."""

    def __init__(self, journal: Journal, statements: Statements) -> None:
        self._journal = journal
        self._statements = statements

    async def costs(self, subject: Subject, request: ReadCosts) -> CostPage:
        """One page of rows. Raises RpcFailed (`invalid`) for a foreign cursor or too many days."""
        if not 0 <= (request.last - request.first).days < MAX_COST_DAYS:
            raise _invalid(f"the days must be in order, and at most {MAX_COST_DAYS}", "ask for fewer days at once")
        as_of, after = (now(), None) if request.cursor is None else _position(request.cursor)
        lines = await self._statements.lines(subject.ref, request.first, request.last, as_of)
        return await asyncio.to_thread(_page, request, lines, as_of, after)

    async def job(self, subject: Subject, request: ReadJobCost) -> JobCost:
        """What a job cost. Raises RpcFailed (`not_found`) for a job that the viewer may not see."""
        return (await self._of_job(subject, request)).cost()

    async def runs(self, subject: Subject, request: ReadRunCosts) -> RunCosts:
        """What each run of a job cost. Raises RpcFailed (`not_found`) for a job that the viewer may not see."""
        found = await self._of_job(subject, request)
        by_run: dict[tuple[str, str], Sum] = {}
        for line in found.lines:
            by_run.setdefault((line.job_id, line.run), Sum()).add(line)
        return RunCosts(job=found.cost(), runs=tuple(_run_cost(run, by_run) for run in found.started[:MAX_RUN_COSTS]))

    async def _of_job(self, subject: Subject, request: ReadJobCost | ReadRunCosts) -> _JobLines:
        as_of = now()
        runs = await self._journal.runs(subject.ref, request.job_id)
        if any(not request.viewer.sees(run.uid) for run in runs):
            raise RpcFailed(RpcError(kind="not_found", detail=f"there is no job {request.job_id}"))
        started = [run for run in runs if run.started_at is not None]
        lines: list[Line] = []
        cut = len(runs) >= MAX_RUNS
        if started:
            first = min(utc_day(run.started_at) for run in started if run.started_at is not None)
            last = max(utc_day(run.ended_at or as_of) for run in started)
            workers = frozenset(node for run in started for node in run.nodes)
            for line in await self._statements.lines(subject.ref, first, last, as_of, workers=workers):
                cut |= line.is_gap
                if line.job_id == request.job_id or line.job_id.startswith(f"{request.job_id}_"):
                    lines.append(line)
        return _JobLines(started, lines, as_of, cut)

    async def jobs(self, subject: Subject, request: ReadJobCosts) -> JobCosts:
        """What several jobs cost so far. Raises RpcFailed (`invalid`) for too many days."""
        as_of = now()
        today = utc_day(as_of)
        if (today - request.since).days >= MAX_COST_DAYS:
            raise _invalid(f"the jobs must be at most {MAX_COST_DAYS} days old", "ask for younger jobs")
        facts = await self._statements.open_facts(subject.ref)
        lines = await self._statements.lines(subject.ref, request.since, today, as_of)
        return await asyncio.to_thread(_job_costs, request, facts.values(), lines, as_of)


def _job_costs(
    request: ReadJobCosts, open_facts: Iterable[Iterable[WorkerFacts]], lines: Iterable[Line], as_of: datetime
) -> JobCosts:
    wanted = frozenset(request.job_ids)
    sums: dict[str, Sum] = {}
    incomplete = False
    for line in lines:
        incomplete |= line.is_gap
        # Slurm may give an id again, to somebody else's job.
        if line.job_id in wanted and (request.viewer is None or request.viewer.sees(line.uid)):
            sums.setdefault(line.job_id, Sum()).add(line)
    rates = (rate for facts in open_facts for rate in rates_at(facts, microseconds(as_of)))
    running = {rate.run.job_id for rate in rates if rate.run is not None}
    return JobCosts(
        costs=tuple(
            CostOfJob(
                job_id=job_id,
                micro_usd=total.micro_usd,
                running=job_id in running,
                stale=total.stale,
                unknown=total.unknown,
            )
            for job_id, total in sorted(sums.items())
        ),
        incomplete=incomplete,
    )


def _page(request: ReadCosts, lines: Sequence[Line], as_of: datetime, after: _Key | None) -> CostPage:
    visible = [line for line in lines if _visible(request, line)]
    overall, shares = Sum(), Sum()
    for line in visible:
        overall.add(line)
        if line.purpose == "job":
            shares.add(line)
    rows = [entry for entry in sorted(rows_of(visible, request.by).items()) if after is None or entry[0] > after]
    page, more = rows[: request.limit], len(rows) > request.limit
    return CostPage(
        rows=tuple(row for _, row in page),
        shares_micro_usd=shares.micro_usd or 0,
        overhead_micro_usd=(overall.micro_usd or 0) - (shares.micro_usd or 0),
        as_of=as_of,
        stale=overall.stale,
        unknown=overall.unknown or any(line.is_gap for line in lines),
        cursor=_cursor(as_of, page[-1][0]) if more else None,
    )


def rows_of(lines: Iterable[Line], by: tuple[CostDimension, ...]) -> dict[_Key, CostRow]:
    """Sum lines into rows. The keys order them."""
    fields = tuple(dict.fromkeys(field for dimension in by for field in _FIELDS[dimension]))
    sums: dict[_Key, tuple[dict[str, object], Sum]] = {}
    for line in lines:
        values = {field: getattr(line, field) for field in fields}
        key = (line.purpose, *(str(values[field]) for field in fields))
        sums.setdefault(key, (values, Sum()))[1].add(line)
    return {
        key: CostRow.model_validate(
            {
                **values,
                "purpose": key[0],
                "micro_usd": total.micro_usd,
                "seconds": total.microseconds / 1_000_000,
                "stale": total.stale,
                "unknown": total.unknown,
            }
        )
        for key, (values, total) in sums.items()
    }


def _lasted(run: JobRun) -> bool:
    """Slurm tells whole seconds. A run that ended in the second of its start has no lines, and costs nothing."""
    return run.ended_at is None or run.ended_at != run.started_at


def _run_cost(run: JobRun, by_run: Mapping[tuple[str, str], Sum]) -> RunCost:
    assert run.started_at is not None  # noqa: S101 - only runs that have started are asked for
    found = by_run.get((run.job_id, f"{int(run.submitted_at.timestamp())}.{run.restarts}"), Sum())
    return RunCost(job_id=run.job_id, started_at=run.started_at, micro_usd=found.micro_usd if _lasted(run) else 0)


def _open_runs(runs: Sequence[JobRun]) -> int:
    """The runs without an end. Only the last run of a job or task can be one: earlier ones ended with the requeue."""
    last = {run.job_id: run for run in runs}
    return sum(run.ended_at is None for run in last.values())


def _visible(request: ReadCosts, line: Line) -> bool:
    return request.viewer.only_uid is None or (line.purpose == "job" and request.viewer.sees(line.uid))


def _cursor(as_of: datetime, key: _Key) -> str:
    return base64.urlsafe_b64encode("\n".join((as_of.isoformat(), *key)).encode()).decode()


def _position(cursor: str) -> tuple[datetime, _Key]:
    as_of: datetime | None
    try:
        at, *key = base64.b64decode(cursor, altchars=b"-_", validate=True).decode().split("\n")
        as_of = datetime.fromisoformat(at).astimezone(UTC)
    except (binascii.Error, ValueError, OverflowError):
        as_of = None
    # Whoever makes up a cursor must not have costs computed until the end of the calendar.
    if as_of is None or not has_happened(as_of, now()):
        raise _invalid("the cursor does not belong to these costs", "start without a cursor")
    return as_of, tuple(key)


def _invalid(detail: str, hint: str) -> RpcFailed:
    return RpcFailed(RpcError(kind="invalid", detail=detail, hint=hint))
