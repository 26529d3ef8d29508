"""Finds jobs that Slurm does not start, although idle workers have long been there that should fit them.

What a job asks for may exclude every worker in ways that no snapshot tells: `--extra=rack=5`, `--ntasks-per-socket=2`,
a time limit that runs into a reservation. Slurm then gives the reason `Constraints` or `Resources`, and more workers
change nothing.

Slurm may also have a good reason not to start a job yet. So a job counts as not starting only if, for `LOOK_SECONDS`
without a gap between snapshots,

- it has waited for nodes and for nothing else: no dependency, no begin time, no limit, no hold;
- enough registered workers ran nothing, were open to its class, not draining and not reserved, to start it whole;
- those workers were left after all jobs ahead of it in the queue had got theirs. A job ahead that too few idle workers
  fit counts with all that fit it: the backfill scheduler keeps them for it.

Slurm considers a worker when it registers, and the whole queue every minute (`sched_interval`), but not all of a long
queue each time. So jobs behind `DEPTH` others are given `LONG_LOOK_SECONDS`.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from clusterra_contracts import gres
from clusterra_contracts.constraints import parse
from clusterra_contracts.demand import Need
from clusterra_contracts.identity import JobId, WorkerName
from clusterra_contracts.node_extra import admits
from clusterra_contracts.shape_fit import GpuShapes

from clusterra_scaler.planner.observed.observation import Observation, busy_nodes, runs_nothing
from clusterra_scaler.planner.observed.supply import Supply, SupplyBin
from clusterra_scaler.planner.requests.demand import Demand
from clusterra_scaler.planner.requests.request_key import request_key

LOOK_SECONDS = 120.0
"""Two of Slurm's periodic cycles, by its default `sched_interval`."""
LONG_LOOK_SECONDS = 1800.0
DEPTH = 100
"""Slurm's default of `default_queue_depth`."""
MAX_DEMANDS = 1000
"""The most demands that are examined in one observation, from the head of the queue."""


@dataclass(frozen=True, slots=True)
class IdleWorker:
    """A worker that could start a job."""

    since: datetime
    """When the first of the latest snapshots was taken that showed it so."""
    extra: str
    """What it is open to. A change of it begins a new time."""


@dataclass(frozen=True, slots=True)
class UnstartedJobs:
    """Since when jobs could have started. Each snapshot counts once. A takeover loses it, which only causes delays."""

    idle: Mapping[WorkerName, IdleWorker] = field(default_factory=dict)
    could_start: Mapping[str, datetime] = field(default_factory=dict)
    """For each request, by its key, when the first of the latest snapshots was taken in which idle workers were left
    for it."""
    failing: Mapping[str, Demand] = field(default_factory=dict)
    """The requests that should have started by the last snapshot, and their first jobs."""
    waiting: Mapping[str, frozenset[JobId]] = field(default_factory=dict)
    """The jobs of each known request that waited in the last snapshot."""
    generation: int = 0
    """Generation of the last snapshot that counted."""
    counted_at: datetime | None = None

    def after(self, observation: Observation, demands: Sequence[Demand], supply: Supply) -> "UnstartedJobs":
        """Add a complete observation; `demands` are the jobs that workers are planned for, in queue order."""
        taken_at, generation = observation.snapshot.taken_at, observation.snapshot.generation
        if generation <= self.generation:
            return self
        valid_seconds = observation.snapshot.valid_seconds
        gap = self.counted_at is not None and (taken_at - self.counted_at).total_seconds() > valid_seconds
        idle_before: Mapping[WorkerName, IdleWorker] = {} if gap else self.idle
        could_before: Mapping[str, datetime] = {} if gap else self.could_start
        idle = _idle_workers(observation, supply, idle_before)
        could_start: dict[str, datetime] = {}
        failing: dict[str, Demand] = {}
        pool, ahead = _Pool(observation, supply, idle), 0
        for demand in demands[:MAX_DEMANDS]:
            if pool.is_empty:
                break
            if (idle_since := pool.take(demand)) is not None:
                key = request_key(demand)
                since = could_start.setdefault(key, could_before.get(key, taken_at))
                look_seconds = LOOK_SECONDS if ahead < DEPTH else LONG_LOOK_SECONDS
                if (taken_at - max(since, idle_since)).total_seconds() >= look_seconds:
                    failing.setdefault(key, demand)
            ahead += demand.count
        return UnstartedJobs(idle, could_start, failing, self.waiting, generation, taken_at)


def _idle_workers(
    observation: Observation, supply: Supply, before: Mapping[WorkerName, IdleWorker]
) -> dict[WorkerName, IdleWorker]:
    """The registered workers on which nothing runs and Slurm may start jobs."""
    busy = busy_nodes(observation.snapshot)
    found: dict[WorkerName, IdleWorker] = {}
    for each in supply.bins:
        node, worker = supply.nodes.get(each.name), supply.workers.get(each.name)
        if each.kind != "node" or worker is None or worker.phase != "running" or node is None:
            continue
        if each.name not in busy and runs_nothing(node):
            known = before.get(each.name)
            same = known is not None and known.extra == node.extra
            found[each.name] = known if known and same else IdleWorker(observation.snapshot.taken_at, node.extra)
    return found


class _Pool:
    """The idle workers as the jobs of the queue take them, by what makes two of them the same to a job."""

    def __init__(self, observation: Observation, supply: Supply, idle: Mapping[WorkerName, IdleWorker]) -> None:
        self._gpu_shapes = GpuShapes(observation.binding.catalogue)
        self._specs = {shape: (spec, gres.parse_spec(spec.gres)) for shape, spec in supply.specs.items()}
        self._idle = idle
        self._kinds: defaultdict[tuple[str, str], list[SupplyBin]] = defaultdict(list)
        for each in sorted(
            (each for each in supply.bins if each.name in idle), key=lambda each: (idle[each.name].since, each.name)
        ):
            self._kinds[each.shape, idle[each.name].extra].append(each)

    @property
    def is_empty(self) -> bool:
        return not any(self._kinds.values())

    def take(self, demand: Demand) -> datetime | None:
        """Takes workers for as many of the jobs as can start.

        Returns when the last of the first job's workers became idle; None if not even one job could start. Then the
        workers that fit it are taken all the same.
        """
        first: datetime | None = None
        for number in range(demand.count):
            taken = self._take_job(demand)
            if taken is None:
                break
            if number == 0:
                first = taken
        return first

    def _take_job(self, demand: Demand) -> datetime | None:
        """Takes the workers of one job, those that have been idle for longest."""
        since: list[datetime] = []
        complete = True
        for part in demand.parts:
            for _ in range(part.nodes):
                found = self._take_worker(part.need, demand)
                if found is None:
                    complete = False
                    break
                since.append(found)
        return max(since) if complete and since else None

    def _take_worker(self, need: Need, demand: Demand) -> datetime | None:
        best: tuple[datetime, list[SupplyBin], SupplyBin] | None = None
        for (shape, extra), workers in self._kinds.items():
            if not workers or not admits(extra, demand.extra) or not self._fits(shape, workers[0], need):
                continue
            chosen = next(
                (each for each in workers if need.node in ("", each.name) and each.name not in need.excluded_nodes),
                None,
            )
            if chosen is not None and (best is None or self._idle[chosen.name].since < best[0]):
                best = self._idle[chosen.name].since, workers, chosen
        if best is None:
            return None
        best[1].remove(best[2])
        return best[0]

    def _fits(self, shape: str, worker: SupplyBin, need: Need) -> bool:
        """Whether a worker of the shape should fit, also where one has registered with less: it was bought as such."""
        if need.unreadable or shape not in self._specs or shape in self._gpu_shapes.excluded_shapes(need):
            return False
        spec, has = self._specs[shape]
        return (
            spec.cpus >= need.cpus
            and spec.memory_mib >= need.memory_mib
            and parse(need.constraint)(worker.features)
            and gres.fits(need.gres, has)
        )
