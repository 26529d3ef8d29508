"""The facts that the ledger keeps of each worker, made from events.

They are a set, so events are idempotent and commute: neither repetitions nor their order change an account.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Literal

from clusterra_contracts.events import JOB_ENDS, Event, JobFact, NodeFact, PriceFact, WorkerFact
from clusterra_contracts.identity import JobId, Moment, Wire
from pydantic import BaseModel, Field, TypeAdapter


class Life(Wire):
    """A worker was started, or has ended."""

    type: Literal["life"] = "life"
    started_at: Moment
    shape: str
    ended_at: Moment | None = None
    missing: bool = False
    """The end was not told: heartbeats have lacked the worker since then. A later price says that it lives."""


class Ready(Wire):
    """A worker has registered with Slurm. Jobs can be allocated so much of it."""

    type: Literal["ready"] = "ready"
    at: Moment
    cpus: int
    memory_mib: int
    gpus: int


class Priced(Wire):
    """The price of a worker from a moment on; None: unknown."""

    type: Literal["priced"] = "priced"
    at: Moment
    started_at: Moment
    shape: str
    micro_usd_per_hour: int | None
    stale: bool
    billable_from: Moment | None


class Run(Wire):
    """A run of a job and its part of the worker. A job that Slurm requeues has several runs."""

    type: Literal["run"] = "run"
    job_id: JobId
    submitted_at: Moment
    restarts: int
    name: str
    user: str
    uid: int
    account: str
    started_at: Moment
    ended_at: Moment | None
    cpus: int | None
    memory_mib: int | None
    gpus: int
    time_limit_seconds: float | None = None
    """From its start on; None without a limit, or from a release that does not tell."""
    template: str = ""
    """Empty for none, and in facts of releases that do not tell."""

    @property
    def key(self) -> tuple[JobId, Moment, int]:
        """Identifies the run, among all runs of all jobs that ever have this id."""
        return self.job_id, self.submitted_at, self.restarts

    @property
    def run_id(self) -> str:
        """Distinguishes the runs of a job: its submit time in seconds since 1970, and how often it was requeued."""
        return f"{int(self.submitted_at.timestamp())}.{self.restarts}"


class Superseded(Wire):
    """A run had ended by this moment, because Slurm had queued its job again."""

    type: Literal["superseded"] = "superseded"
    job_id: JobId
    submitted_at: Moment
    restarts: int
    at: Moment

    @property
    def key(self) -> tuple[JobId, Moment, int]:
        """The key of the run."""
        return self.job_id, self.submitted_at, self.restarts


type WorkerFacts = Life | Ready | Priced | Run | Superseded

FACT: TypeAdapter[WorkerFacts] = TypeAdapter(
    Annotated[Life | Ready | Priced | Run | Superseded, Field(discriminator="type")]
)
"""Reads a stored fact."""


def times_of(told: BaseModel) -> Iterator[datetime]:
    """All times in a fact."""
    return (value for value in told.__dict__.values() if isinstance(value, datetime))


def facts_of(event: Event) -> tuple[tuple[str, WorkerFacts], ...]:
    """Return what an event tells of which workers; nothing for most kinds."""
    match event.data:
        case WorkerFact() as fact:
            return _life(event, fact)
        case PriceFact() as fact:
            priced = Priced(
                at=event.time,
                started_at=fact.started_at,
                shape=fact.shape,
                micro_usd_per_hour=fact.micro_usd_per_hour,
                stale=fact.stale,
                billable_from=fact.billable_from,
            )
            return ((fact.worker, priced),)
        case NodeFact(kind="node.registered", size=size) as fact if size is not None:
            ready = Ready(at=event.time, cpus=size.cpus, memory_mib=size.memory_mib, gpus=size.gpus)
            return ((fact.node, ready),)
        case JobFact() as fact:
            return _runs(fact)
        case _:
            return ()


def _life(event: Event, fact: WorkerFact) -> tuple[tuple[str, WorkerFacts], ...]:
    started_at = event.time if fact.kind == "worker.started" else fact.started_at
    if started_at is None:  # from an agent of a release that does not tell which worker of this name has ended
        return ()
    ended_at = None if fact.kind == "worker.started" else event.time
    return ((fact.worker, Life(started_at=started_at, shape=fact.shape, ended_at=ended_at)),)


def _runs(fact: JobFact) -> tuple[tuple[str, WorkerFacts], ...]:
    if fact.started_at is None or fact.restarts is None:
        return ()
    nodes = len(fact.nodes)
    ended_at = (fact.ended_at or fact.started_at) if fact.kind in JOB_ENDS else None
    # Slurm's record has the totals over all nodes.
    cpus = None if fact.cpus is None else -(-fact.cpus // max(nodes, 1))
    memory_mib = None if fact.memory_mib is None else -(-fact.memory_mib // max(nodes, 1))
    return tuple(
        (
            node,
            Run(
                job_id=fact.job_id,
                submitted_at=fact.submitted_at,
                restarts=fact.restarts,
                name=fact.name,
                user=fact.user,
                uid=fact.uid,
                account=fact.account,
                started_at=fact.started_at,
                ended_at=ended_at,
                cpus=cpus,
                memory_mib=memory_mib,
                gpus=fact.gpus.get(node, 0),
                time_limit_seconds=fact.time_limit_seconds,
                template=fact.template,
            ),
        )
        for node in dict.fromkeys(fact.nodes)
    )
