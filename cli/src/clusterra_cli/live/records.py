"""What `top` knows of jobs, workers and money, and how that is made from answers and events of the gateway."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType

from clusterra.models import CostReport, JobRecord, Quota, Shape
from clusterra.nodes import Node
from clusterra.operations.waiting import ENDED_STATES

from clusterra_cli.live.event_facts import MAX_TEXT, JobFact

MAX_NODES = 100
"""The most nodes of a job that are kept."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job, or a task of an array. Amounts are US dollars."""

    job_id: str
    name: str
    user: str
    state: str
    reason: str
    nodes: tuple[str, ...]
    node_count: int
    cpus: int | None
    submitted_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    time_limit_seconds: float | None
    array_tasks: str = ""
    memory_mib: int | None = None
    """The memory allocated over all its nodes, as far as known."""
    gpus: int = 0

    @property
    def ended(self) -> bool:
        """Whether it has ended. The rest of an array whose tasks wait has not."""
        return self.state in ENDED_STATES and not self.array_tasks

    @property
    def phase(self) -> str:
        """`pending`, `running` or `ended`; everything between a start and an end is running."""
        if self.ended:
            return "ended"
        return "pending" if self.state == "PENDING" else "running"


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker. `registered`: Slurm has it as a node. `started`: an event reported its start, and one will its end."""

    shape: str
    registered: bool = False
    started: bool = False
    cpus: int = 0


@dataclass(frozen=True, slots=True)
class ShapeSize:
    """The resources of a shape, and its price in US dollars for an hour."""

    cpus: int
    memory_mib: float
    gpus: int
    usd_per_hour: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What a job cost until `as_of`. `usd_per_hour` is what it cost so far for each of its hours."""

    usd: float
    usd_per_hour: float | None
    as_of: datetime


@dataclass(frozen=True, slots=True)
class QuotaLeft:
    """A quota of this month in US dollars."""

    scope: str
    name: str
    left: float
    limit: float


@dataclass(frozen=True, slots=True)
class Money:
    """The costs of this month."""

    bill: float | None = None
    as_of: datetime | None = None
    by_job: Mapping[str, Cost] = MappingProxyType({})
    quotas: tuple[QuotaLeft, ...] = ()


def job_of_record(record: JobRecord) -> Job:
    """The job of a record."""
    per_node, per_cpu = record.memory_per_node_mib, record.memory_per_cpu_mib
    return Job(
        job_id=record.job_id,
        name=record.name[:MAX_TEXT],
        user=record.user[:MAX_TEXT],
        state=record.state[:MAX_TEXT],
        reason="" if record.reason == "None" else record.reason[:MAX_TEXT],
        nodes=record.nodes[:MAX_NODES],
        node_count=record.node_count,
        cpus=record.cpus,
        submitted_at=record.submitted_at,
        started_at=record.started_at,
        ended_at=record.ended_at,
        time_limit_seconds=record.time_limit_seconds,
        array_tasks=record.array_tasks[:MAX_TEXT],
        memory_mib=per_node * record.node_count if per_node else per_cpu * record.cpus if per_cpu else None,
    )


def job_of_fact(fact: JobFact, before: Job | None) -> Job:
    """The job after an event. What the event does not have stays as it was."""
    made = Job(
        job_id=fact.job_id,
        name=fact.name[:MAX_TEXT],
        user=fact.user[:MAX_TEXT],
        state=fact.state[:MAX_TEXT],
        reason="" if fact.reason == "None" else fact.reason[:MAX_TEXT],
        nodes=fact.nodes[:MAX_NODES],
        node_count=max(1, len(fact.nodes)),
        cpus=fact.cpus,
        submitted_at=fact.submitted_at,
        started_at=fact.started_at,
        ended_at=fact.ended_at,
        time_limit_seconds=fact.time_limit_seconds,
        memory_mib=fact.memory_mib,
        gpus=sum(fact.gpus.values()),
    )
    if before is None:
        return made
    return replace(
        made,
        cpus=before.cpus if made.cpus is None else made.cpus,
        memory_mib=before.memory_mib if made.memory_mib is None else made.memory_mib,
        array_tasks=before.array_tasks if made.state == "PENDING" else "",
    )


def shapes_of(shapes: list[Shape]) -> Mapping[str, ShapeSize]:
    """The shapes by their names."""
    return {
        each.name: ShapeSize(each.vcpu, each.memory_gib * 1024, each.gpu_count, float(each.usd_per_hour))
        for each in shapes
    }


def workers_of(nodes: list[Node], shapes: Mapping[str, ShapeSize]) -> Mapping[str, Worker]:
    """The workers that Slurm has as nodes, by their names. A node says in its features which shape it has."""
    return {
        each.name: Worker(
            shape=next((feature for feature in each.features if feature in shapes), "other"),
            registered=True,
            cpus=each.cpus,
        )
        for each in nodes
    }


def money_of(report: CostReport, quotas: list[Quota]) -> Money:
    """The costs of this month, and what is left of the quotas."""
    costs: dict[str, Cost] = {}
    for row in report.rows:
        if row.job_id and row.cost is not None:
            usd = float(row.cost.amount)
            costs[row.job_id] = Cost(usd, usd / row.hours if row.hours > 0 else None, report.as_of)
    left = tuple(
        QuotaLeft(each.scope, each.name[:MAX_TEXT], float(each.left.amount), float(each.limit.amount))
        for each in quotas
    )
    return Money(float(report.bill.amount), report.as_of, costs, left)
