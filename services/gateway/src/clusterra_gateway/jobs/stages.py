"""The stages of a job from its submit to its end, from Slurm's record of it and from archived events. Pure functions.

Slurm's times are whole seconds, and those of decisions and workers are not: within a second, stages have the order in
which they follow from each other.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from clusterra_contracts.events import JOB_ENDS, Event, JobFact, NodeFact, ScaleFact, ShapeChange, WorkerFact
from clusterra_contracts.identity import JobId, Moment, ShapeName
from clusterra_contracts.job_states import LIVE
from clusterra_contracts.rpc.slurm import Job

from clusterra_gateway.http.answers.responses import ResponseBody

StageName = Literal["submitted", "decided", "worker_started", "registered", "running", "requeued", "ended"]

SECOND = timedelta(seconds=1)
MAX_DECISIONS = 20
"""How many decisions that name a job are told: the first ones."""
MAX_WORKERS = 20
"""Of how many workers the stages are told, over all runs: those of the last ones."""

_RANKS: Mapping[StageName, int] = {
    "requeued": 0,
    "submitted": 1,
    "decided": 2,
    "worker_started": 3,
    "registered": 4,
    "running": 5,
    "ended": 6,
}


class Stage(ResponseBody):
    """A stage of a job. `at` is null where the stage is not known, or has not come.

    `seconds_since_previous` counts from the stage before it whose time is known. `worker` and `shape` name what the
    stage tells of, `decision_generation` the desired state of a decision. `reason` is the one of the decision, or
    Slurm's for the end; `detail` is for people to read.
    """

    stage: StageName
    at: Moment | None
    seconds_since_previous: float | None = None
    detail: str = ""
    worker: str | None = None
    shape: ShapeName | None = None
    decision_generation: int | None = None
    reason: str = ""


class Placed(NamedTuple):
    """A stage, and the moment at which it stands: its own, or where it is not known, that of what follows from it."""

    moment: datetime
    stage: Stage


class Run(NamedTuple):
    """A run of a job on its nodes."""

    started_at: datetime
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobHistory:
    """What is known of a job itself: Slurm's record, None once Slurm has forgotten it, and its own events in order."""

    job_id: JobId
    job: Job | None
    facts: Sequence[tuple[datetime, JobFact]]

    @classmethod
    def of(cls, job_id: JobId, job: Job | None, events: Iterable[Event]) -> "JobHistory":
        """From the events about the job, and about the array that it is a task of, in any order.

        Slurm may have given the number to another job before: what was before the last submit is not told.
        """
        array = job_id.partition("_")[0]
        facts = [
            (event.time, event.data)
            for event in sorted(events, key=lambda each: each.time)
            if isinstance(event.data, JobFact)
            and (event.data.job_id == job_id or (event.data.job_id, event.data.kind) == (array, "job.submitted"))
        ]
        first = max((i for i, (_, fact) in enumerate(facts) if fact.kind == "job.submitted"), default=0)
        return cls(job_id, job, facts[first:])

    @property
    def known(self) -> bool:
        """Whether there is such a job. The submit of an array does not tell which tasks it has."""
        return self.job is not None or any(fact.job_id == self.job_id for _, fact in self.facts)

    @property
    def submitted_at(self) -> datetime | None:
        """When it was submitted; None where only a later requeue is known."""
        for time, fact in self.facts:
            if fact.kind == "job.submitted":
                return time
        if self.job is not None and not self.job.restarts:
            return self.job.submitted_at
        return None

    @property
    def began_at(self) -> datetime:
        """The first that is known of it: no decision for it is older."""
        times = [time for time, _ in self.facts[:1]] + ([self.job.submitted_at] if self.job else [])
        return min(times)

    @property
    def runs(self) -> tuple[Run, ...]:
        """Its runs, the one that Slurm shows included, from old to new."""
        runs = {_second(time): Run(time, fact.nodes) for time, fact in self.facts if fact.kind == "job.running"}
        job = self.job
        if job is not None and job.started_at is not None and job.state != "PENDING":
            runs.setdefault(_second(job.started_at), Run(job.started_at, job.nodes))
        return tuple(runs[second] for second in sorted(runs))

    @property
    def waits(self) -> bool:
        """Whether it waits for a run, so that a decision may still name it."""
        if self.job is not None:
            return self.job.state == "PENDING"
        return not self.facts or self.facts[-1][1].kind in ("job.submitted", "job.requeued")

    def workers(self) -> tuple[tuple[Run, str], ...]:
        """The workers of its last runs, each with the run."""
        return tuple((run, node) for run in self.runs for node in run.nodes)[-MAX_WORKERS:]

    def decided_before(self, at: datetime) -> datetime:
        """No decision for it is as late as this: `at` while it waits."""
        if self.waits:
            return at
        ends = [time for time, _ in self.facts] + ([self.job.ended_at] if self.job and self.job.ended_at else [])
        return (self.runs[-1].started_at if self.runs else max(ends, default=at)) + SECOND

    def stages(self) -> Iterator[Placed]:
        """Its own stages."""
        yield Placed(self.submitted_at or self.began_at, Stage(stage="submitted", at=self.submitted_at))
        for time, fact in self.facts:
            if fact.kind == "job.requeued":
                yield Placed(time, Stage(stage="requeued", at=time))
        for run in self.runs:
            detail = "" if len(run.nodes) <= 1 else f"on {len(run.nodes)} nodes"
            worker = run.nodes[0] if len(run.nodes) == 1 else None
            yield Placed(run.started_at, Stage(stage="running", at=run.started_at, detail=detail, worker=worker))
        ends = {_second(time): _end(time, fact) for time, fact in self.facts if fact.kind in JOB_ENDS}
        job = self.job
        if job is not None and job.state not in LIVE and job.ended_at is not None:
            ends.setdefault(_second(job.ended_at), _end(job.ended_at, job))
        yield from ends.values()


def _end(at: datetime, ended: Job | JobFact) -> Placed:
    code = "" if ended.exit_code is None else f" with the exit code {ended.exit_code}"
    return Placed(at, Stage(stage="ended", at=at, detail=f"{ended.state}{code}", reason=ended.reason))


def decisions_known(history: JobHistory, decisions: Iterable[Event]) -> bool:
    """Whether as many decisions that name the job are among these as are told."""
    return sum(1 for _ in changes_naming(history.job_id, decisions)) >= MAX_DECISIONS


def changes_naming(job_id: JobId, decisions: Iterable[Event]) -> Iterator[tuple[Event, ScaleFact, ShapeChange]]:
    """The changes that name a job, or an array that it is a task of, each with its decision."""
    names = set(names_of(job_id))
    for event in decisions:
        if isinstance(event.data, ScaleFact):
            yield from ((event, event.data, each) for each in event.data.changes if names.intersection(each.job_ids))


def names_of(job_id: JobId) -> tuple[JobId, ...]:
    """How events name a job: by its id, or by that of the array that it is a task of, which comes last."""
    return tuple(dict.fromkeys((job_id, job_id.partition("_")[0])))


def decision_stages(history: JobHistory, decisions: Iterable[Event], *, complete: bool) -> tuple[Placed, ...]:
    """The decisions that named the job, or an array that it is a task of; one without a time where there is none."""
    found = [
        Placed(
            event.time,
            Stage(
                stage="decided",
                at=event.time,
                detail=f"{change.shape} from {change.replicas_before} to {change.replicas_after} workers",
                shape=change.shape,
                decision_generation=decision.generation,
                reason=change.reason,
            ),
        )
        for event, decision, change in changes_naming(history.job_id, sorted(decisions, key=lambda each: each.time))
    ]
    if found:
        return tuple(found[:MAX_DECISIONS])
    if not complete:
        detail = "not all decisions since its submit were read"
    elif history.waits:
        detail = "no decision has bought workers for it yet"
    else:
        detail = "no decision named it: it ran on workers that were there or had been ordered"
    return (Placed(history.began_at, Stage(stage="decided", at=None, detail=detail)),)


def worker_stages(run: Run, node: str, events: Iterable[Event]) -> Iterator[Placed]:
    """The start and the registration of a worker before a run on it; without a time where they are not known."""
    started: tuple[datetime, WorkerFact] | None = None
    registered: list[tuple[datetime, NodeFact]] = []
    for event in sorted(events, key=lambda each: each.time):
        if event.subject != node or event.time >= run.started_at + SECOND:
            continue
        match event.data:
            case WorkerFact(kind="worker.started") as fact:
                started = (event.time, fact)
            case NodeFact(kind="node.registered") as fact:
                registered.append((event.time, fact))
    # The name may have been another worker's before.
    mine = [each for each in registered if started is None or each[0] >= _second(started[0])]
    shape = started[1].shape if started is not None else None
    at = started[0] if started is not None else None
    yield Placed(at or run.started_at, Stage(stage="worker_started", at=at, worker=node, shape=shape))
    at, size = (mine[0][0], mine[0][1].size) if mine else (None, None)
    detail = "" if size is None else f"{size.cpus} CPUs, {size.memory_mib} MiB"
    stage = Stage(stage="registered", at=at, detail=detail, worker=node, shape=shape)
    yield Placed(at or run.started_at, stage)


def in_order(placed: Iterable[Placed]) -> tuple[Stage, ...]:
    """The stages by time; one without a time stands where it belongs."""
    found: list[Stage] = []
    before: datetime | None = None
    for stage in (each.stage for each in sorted(placed, key=_place)):
        seconds = (stage.at - before).total_seconds() if stage.at is not None and before is not None else None
        found.append(
            stage.model_copy(update={"seconds_since_previous": None if seconds is None else max(seconds, 0.0)})
        )
        before = stage.at or before
    return tuple(found)


def _place(placed: Placed) -> tuple[datetime, int, datetime]:
    return _second(placed.moment), _RANKS[placed.stage.stage], placed.moment


def _second(moment: datetime) -> datetime:
    """The second that a moment is in."""
    return moment.replace(microsecond=0)
