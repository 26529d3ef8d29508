"""Which jobs of the state are shown, in which order, and what is computed of them for a moment: times and costs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from clusterra_cli.live.records import Job
from clusterra_cli.live.state import State

type Order = Literal["state", "id", "user", "time", "cost"]
ORDERS: tuple[Order, ...] = ("state", "id", "user", "time", "cost")
_PHASES = ("running", "pending", "ended")
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class View:
    """What somebody wants to see. What is empty does not filter."""

    order: Order = "state"
    reverse: bool = False
    states: frozenset[str] = frozenset()
    user: str = ""


@dataclass(frozen=True, slots=True)
class ShapeRow:
    """The workers of one shape. `booting` are those that are not in Slurm yet; `usd_per_hour` is of all of them.

    `cpus_used` are those of the jobs that are known.
    """

    shape: str
    live: int
    booting: int
    desired: int | None
    cpus: int
    cpus_used: int
    usd_per_hour: float | None


def shown(state: State, view: View, now: datetime) -> list[Job]:
    """The jobs that are shown, in their order."""
    wanted = [
        job
        for job in state.jobs.values()
        if (not view.states or job.state in view.states) and view.user in ("", job.user)
    ]
    match view.order:
        case "state":
            wanted.sort(key=lambda job: (_PHASES.index(job.phase), *_in_phase(job)))
        case "id":
            wanted.sort(key=_number)
        case "user":
            wanted.sort(key=lambda job: (job.user, *_number(job)))
        case "time":
            wanted.sort(key=lambda job: (-(elapsed(job, now) or 0.0), *_number(job)))
        case "cost":
            wanted.sort(key=lambda job: (-(cost(state, job, now) or 0.0), *_number(job)))
    if view.reverse:
        wanted.reverse()
    return wanted


def _in_phase(job: Job) -> tuple[object, ...]:
    """What has just ended comes first of what has ended: it is looked for, and must not be below the screen."""
    if job.phase == "ended":
        return (-(job.ended_at or job.submitted_at).timestamp(), *_number(job))
    return (job.state, *_number(job))


def _number(job: Job) -> tuple[int, int]:
    array, _, task = job.job_id.partition("_")
    return int(array), int(task or -1)


def elapsed(job: Job, now: datetime) -> float | None:
    """The seconds that a job has run; None before its start."""
    if job.started_at is None:
        return None
    return max(0.0, ((job.ended_at or now) - job.started_at).total_seconds())


def usd_per_hour(state: State, job: Job) -> float | None:
    """The share of the price of its workers that a running job pays, from list prices; None where it is unknown.

    It is the greatest of its shares of their CPUs, memory and GPUs.
    """
    if not job.nodes or not job.cpus:
        return None
    total, count = 0.0, len(job.nodes)
    for node in job.nodes:
        worker = state.workers.get(node)
        size = None if worker is None else state.shapes.get(worker.shape)
        if size is None:
            return None
        shares = (
            job.cpus / count / size.cpus if size.cpus else 0.0,
            (job.memory_mib or 0) / count / size.memory_mib if size.memory_mib else 0.0,
            job.gpus / count / size.gpus if size.gpus else 0.0,
        )
        total += size.usd_per_hour * min(1.0, max(shares))
    return total


def cost(state: State, job: Job, now: datetime) -> float | None:
    """What a job cost so far in US dollars: as the ledger has it, and for the time after that at its rate until now."""
    known = state.money.by_job.get(job.job_id)
    if job.phase != "running" or job.started_at is None:
        return None if known is None else known.usd
    rate = usd_per_hour(state, job)
    rate = known.usd_per_hour if rate is None and known is not None else rate
    if rate is None:
        return None if known is None else known.usd
    since = job.started_at if known is None else max(known.as_of, job.started_at)
    return (0.0 if known is None else known.usd) + rate * max(0.0, (now - since).total_seconds()) / HOUR


def fleet(state: State) -> list[ShapeRow]:
    """The shapes of which there are workers, or should be."""
    names = {each.shape for each in state.workers.values()} | {name for name, count in state.desired.items() if count}
    used = _used(state)
    rows = []
    for name in sorted(names):
        workers = [each for each in state.workers.values() if each.shape == name]
        size = state.shapes.get(name)
        rows.append(
            ShapeRow(
                shape=name,
                live=len(workers),
                booting=sum(not each.registered for each in workers),
                desired=state.desired.get(name),
                cpus=sum(each.cpus for each in workers),
                cpus_used=used[name],
                usd_per_hour=None if size is None else size.usd_per_hour * len(workers),
            )
        )
    return rows


def _used(state: State) -> Counter[str]:
    """The CPUs of the jobs that run, by the shape of their workers."""
    used: Counter[str] = Counter()
    for job in state.jobs.values():
        if job.phase == "running" and job.nodes:
            for node in job.nodes:
                if (worker := state.workers.get(node)) is not None:
                    used[worker.shape] += (job.cpus or 0) // len(job.nodes)
    return used


def counts(jobs: Sequence[Job]) -> dict[str, int]:
    """How many jobs run, wait and have ended."""
    counted = Counter(job.phase for job in jobs)
    return {phase: counted[phase] for phase in _PHASES}
