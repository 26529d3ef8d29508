"""The state that `top` shows, and what an event changes of it. Nothing here reads, writes or asks for the time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType

from clusterra_cli.live.event_facts import ActionFact, JobFact, NodeFact, ScaleFact, WorkerFact, fact_of
from clusterra_cli.live.records import Job, Money, ShapeSize, Worker, job_of_fact

MAX_JOBS = 5_000
"""The most jobs that are kept."""
MAX_WORKERS = 10_000
MAX_GONE = 1_000
ENDED_SECONDS = 300.0
"""For how long jobs are shown after their end."""
JOBS, FLEET, MONEY = "jobs", "fleet", "money"
"""What can be read again as a whole. The record of one job is due under its own id."""
_JOB_KINDS = frozenset(
    {"job.submitted", "job.running", "job.requeued", "job.completed", "job.failed", "job.cancelled", "job.timeout"}
)
_MONEY_KINDS = frozenset({"quota.changed", "quota.deleted", "budget.threshold"})


@dataclass(frozen=True, slots=True)
class State:
    """Jobs and workers by their names, and what they cost."""

    jobs: Mapping[str, Job] = MappingProxyType({})
    workers: Mapping[str, Worker] = MappingProxyType({})
    desired: Mapping[str, int] = MappingProxyType({})
    """The workers that there should be, by shape."""
    gone: tuple[str, ...] = ()
    """The last workers that ended: an answer may be older than the event of an end. No name comes twice."""
    shapes: Mapping[str, ShapeSize] = MappingProxyType({})
    money: Money = field(default_factory=Money)
    more: bool = False
    """Whether there are jobs that are not kept."""
    user: str | None = None
    """Only this user's jobs are kept."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The state after an event, and the records that must be read again because the event does not have them."""

    state: State
    due: frozenset[str] = frozenset()


def apply(state: State, data: Mapping[str, object]) -> Applied:
    """What the fact of an event changes. To apply an event twice changes nothing more."""
    kind = data.get("kind")
    if not isinstance(kind, str):
        return Applied(state)
    entity = kind.partition(".")[0]
    if kind in _JOB_KINDS:
        return _job(state, kind, fact_of(JobFact, data))
    if entity in ("action", "job"):
        return _action(state, fact_of(ActionFact, data))
    if entity == "worker":
        return _worker(state, kind, fact_of(WorkerFact, data))
    if kind == "scale.decided":
        return _decision(state, fact_of(ScaleFact, data))
    if entity == "node":
        return _node(state, kind, fact_of(NodeFact, data))
    return Applied(state, frozenset({MONEY}) if kind in _MONEY_KINDS else frozenset())


def _job(state: State, kind: str, fact: JobFact | None) -> Applied:
    if fact is None or state.user not in (None, fact.user):
        return Applied(state)
    before = state.jobs.get(fact.job_id)
    job = job_of_fact(fact, before)
    if before is not None and job.phase == before.phase == "pending" and kind == "job.submitted":
        # The record has more than the event: why the job waits.
        job = replace(job, reason=before.reason)
    due: set[str] = set()
    if job.phase == "pending":
        due.add(job.job_id)
    elif kind != "job.running":
        due |= {FLEET, MONEY}
    elif any(node not in state.workers for node in job.nodes):
        due.add(FLEET)
    array = job.job_id.partition("_")[0]
    if array != job.job_id and array in state.jobs:
        due.add(array)
    return Applied(with_jobs(state, (job,)), frozenset(due))


def _action(state: State, fact: ActionFact | None) -> Applied:
    if fact is None:
        return Applied(state)
    return Applied(state, frozenset({fact.job_id} if fact.job_id in state.jobs else ()))


def _worker(state: State, kind: str, fact: WorkerFact | None) -> Applied:
    if fact is None or kind == "worker.priced":
        return Applied(state)
    before = state.workers.get(fact.worker)
    if kind != "worker.started":
        return Applied(_without_worker(state, fact.worker))
    if fact.worker in state.gone or (before is None and len(state.workers) >= MAX_WORKERS):
        return Applied(state)
    worker = Worker(fact.shape, started=True) if before is None else replace(before, started=True)
    return Applied(replace(state, workers={**state.workers, fact.worker: worker}))


def _node(state: State, kind: str, fact: NodeFact | None) -> Applied:
    if fact is None:
        return Applied(state)
    if kind == "node.removed":
        return Applied(_without_worker(state, fact.node))
    before = state.workers.get(fact.node)
    if before is None or fact.size is None:
        return Applied(state, frozenset({FLEET}))
    worker = replace(before, registered=True, cpus=fact.size.cpus)
    return Applied(replace(state, workers={**state.workers, fact.node: worker}))


def _without_worker(state: State, name: str) -> State:
    if name in state.gone and name not in state.workers:
        return state
    left = {each: worker for each, worker in state.workers.items() if each != name}
    return replace(state, workers=left, gone=(*(each for each in state.gone if each != name), name)[-MAX_GONE:])


def _decision(state: State, fact: ScaleFact | None) -> Applied:
    if fact is None:
        return Applied(state)
    return Applied(
        replace(state, desired={**state.desired, **{each.shape: each.replicas_after for each in fact.changes}})
    )


def with_jobs(state: State, jobs: Iterable[Job]) -> State:
    """The state with these jobs as they are now."""
    kept = {**state.jobs, **{each.job_id: each for each in jobs if state.user in (None, each.user)}}
    return replace(state, jobs=_bounded(kept), more=state.more or len(kept) > MAX_JOBS)


def without_job(state: State, job_id: str) -> State:
    """The state without a job that nobody knows any more."""
    return replace(state, jobs={name: each for name, each in state.jobs.items() if name != job_id})


def with_queue(state: State, jobs: Iterable[Job], *, more: bool) -> State:
    """The state with all jobs read again."""
    return with_jobs(replace(state, jobs={}, more=more), jobs)


def with_fleet(state: State, workers: Mapping[str, Worker], desired: Mapping[str, int]) -> State:
    """The state with the fleet read again. The answer may be older than events, and workers that boot are not in it.

    So a worker whose start an event reported stays until one reports its end, and what has ended does not come back.
    """
    kept = {name: each for name, each in state.workers.items() if each.started}
    read = {name: each for name, each in workers.items() if name not in kept and name not in state.gone}
    known = {name: replace(workers[name], started=True) if name in workers else each for name, each in kept.items()}
    return replace(state, workers=dict([*known.items(), *read.items()][:MAX_WORKERS]), desired=desired)


def without_ended(state: State, now: datetime) -> State:
    """The state without the jobs that ended long ago."""
    before = now - timedelta(seconds=ENDED_SECONDS)
    kept = {
        name: job for name, job in state.jobs.items() if not job.ended or job.ended_at is None or job.ended_at > before
    }
    return state if len(kept) == len(state.jobs) else replace(state, jobs=kept)


_KEPT_FIRST = {"running": 2, "pending": 1, "ended": 0}


def _bounded(jobs: Mapping[str, Job]) -> Mapping[str, Job]:
    """At most MAX_JOBS: those that run, then those that wait, then those that ended; of each the newest."""
    if len(jobs) <= MAX_JOBS:
        return jobs
    ordered = sorted(jobs.values(), key=lambda job: (_KEPT_FIRST[job.phase], job.submitted_at), reverse=True)
    return {job.job_id: job for job in ordered[:MAX_JOBS]}
