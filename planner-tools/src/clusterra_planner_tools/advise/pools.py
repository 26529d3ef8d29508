"""Sorts jobs by what they can run on: workers without GPUs, workers with GPUs, or no shape of the catalogue."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from clusterra_planner_tools.advise.left_out import Counts
from clusterra_planner_tools.simulate.catalogue import Catalogue
from clusterra_planner_tools.simulate.trace import Job

type PoolName = Literal["CPU", "GPU"]
type _Kind = tuple[int, int, float, int, frozenset[str] | None]
_SPREAD = "ask for more on each node than a shape has, and count as spread over more nodes"


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """What may be changed in what jobs ask for."""

    spread: bool = False
    """Spread jobs of one node, too."""
    any_gpu: bool = False
    """A job for a GPU model counts as one for any model."""


@dataclass(slots=True)
class Pool:
    """Jobs and the shapes that hold them, in order of their submission."""

    name: PoolName
    catalogue: Catalogue
    jobs: list[Job] = field(default_factory=list)
    ideal_usd: float = 0.0
    """The cost if each job paid for nothing but its own share of the cheapest shape while it runs."""


@dataclass(slots=True)
class Misfits:
    """Jobs that no shape holds, by the reason."""

    jobs: Counter[str] = field(default_factory=Counter)
    cpu_hours: Counter[str] = field(default_factory=Counter)


class Sorter:
    """Puts each job in its pool. Equal jobs are looked at once."""

    def __init__(self, parts: tuple[Catalogue | None, Catalogue | None], options: PoolOptions, counts: Counts) -> None:
        names: tuple[PoolName, ...] = ("CPU", "GPU")
        self.pools = {name: Pool(name, part) for name, part in zip(names, parts, strict=True) if part is not None}
        self.misfits = Misfits()
        self._options = options
        self._counts = counts
        self._changes: dict[_Kind, Callable[[Job], Job] | str] = {}
        self._ideals: dict[_Kind, float] = {}

    def add(self, job: Job) -> None:
        """Put a job in its pool, or count it as a misfit."""
        kind = _kind(job)
        change = self._changes.get(kind)
        if change is None:
            change = self._changes[kind] = self._change(job)
        if isinstance(change, str):
            self.misfits.jobs[change] += 1
            self.misfits.cpu_hours[change] += job.nodes * job.cpus * job.run_seconds / 3600  # type: ignore[assignment]
            return
        changed = change(job)
        if changed.nodes != job.nodes:
            self._counts.assumed[_SPREAD] += 1
        pool = self.pools["GPU" if changed.gpus else "CPU"]
        pool.jobs.append(changed)
        pool.ideal_usd += self.ideal_usd(changed, pool)

    def ideal_usd(self, job: Job, pool: Pool) -> float:
        """What the job would cost if it paid for its share of the cheapest shape alone."""
        kind = _kind(job)
        rate = self._ideals.get(kind)
        if rate is None:
            rate = self._ideals[kind] = job.nodes * min(
                each.usd_per_second
                * max(
                    job.cpus / each.cpus, job.memory_gib / each.memory_gib, job.gpus / each.gpus if each.gpus else 0.0
                )
                for each in pool.catalogue.fitting(job)
            )
        return rate * job.run_seconds

    def _change(self, job: Job) -> Callable[[Job], Job] | str:
        """How the job is changed so that it fits, or why it does not."""
        pool = self.pools.get("GPU" if job.gpus else "CPU")
        if pool is None:
            return f"{'ask for GPUs' if job.gpus else 'ask for no GPUs'}, and the catalogue has no such shape"
        allowed = self._allowed(job, pool)
        if isinstance(allowed, str):
            return allowed
        asked = replace(job, shapes=allowed)
        if pool.catalogue.fitting(asked):
            return (lambda each: each) if allowed == job.shapes else (lambda each: replace(each, shapes=allowed))
        if job.nodes > 1 or self._options.spread:
            times = _times(asked, pool.catalogue)
            if times > 1 and pool.catalogue.fitting(_divided(asked, times)):
                return lambda each: replace(_divided(each, times), shapes=allowed)
        return _reason(asked, pool.catalogue)

    def _allowed(self, job: Job, pool: Pool) -> frozenset[str] | str | None:
        if job.shapes is None or self._options.any_gpu:
            return None
        (model,) = job.shapes
        names = frozenset(each.name for each in pool.catalogue.shapes.shapes if each.gpu_model == model)
        return names or f"ask for GPUs of the model {model[:32]}, which the catalogue does not have"


def _kind(job: Job) -> _Kind:
    return job.nodes, job.cpus, job.memory_gib, job.gpus, job.shapes


def _times(job: Job, catalogue: Catalogue) -> int:
    """Over how many times as many nodes the job must be spread for each of its resources to fit some shape."""
    sizes = [each for each in catalogue.offerings if job.shapes is None or each.shape in job.shapes]
    gpus = -(-job.gpus // max(each.gpus for each in sizes)) if job.gpus else 1
    memory = job.memory_gib / max(each.memory_gib for each in sizes)
    return max(-(-job.cpus // max(each.cpus for each in sizes)), int(-(-memory // 1)), gpus)


def _divided(job: Job, times: int) -> Job:
    return replace(
        job,
        nodes=job.nodes * times,
        cpus=-(-job.cpus // times),
        memory_gib=job.memory_gib / times,
        gpus=-(-job.gpus // times),
    )


def _reason(job: Job, catalogue: Catalogue) -> str:
    sizes = [each for each in catalogue.offerings if job.shapes is None or each.shape in job.shapes]
    cpus, gib, gpus = (max(column) for column in zip(*((e.cpus, e.memory_gib, e.gpus) for e in sizes), strict=True))
    wanted = [
        f"more than {most:g} {unit}"
        for asked, most, unit in (
            (job.cpus, cpus, "CPUs"),
            (round(job.memory_gib), int(gib), "GiB"),
            (job.gpus, gpus, "GPUs"),
        )
        if asked > most
    ]
    if not wanted:
        return "ask for a combination of CPUs, memory and GPUs on one node that no shape has"
    return f"ask for {' and '.join(wanted)} on one node"
