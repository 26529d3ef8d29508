"""The advice on an input: what its work would have cost."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from math import fsum
from pathlib import Path

from clusterra_planner_tools.advise import fixed
from clusterra_planner_tools.advise.left_out import NotReadable
from clusterra_planner_tools.advise.on_demand import PERCENTS, PoolSimulation, simulate
from clusterra_planner_tools.advise.pools import PoolOptions, Sorter
from clusterra_planner_tools.advise.progress import Progress, silent
from clusterra_planner_tools.advise.reading import Read, ReadOptions, read
from clusterra_planner_tools.advise.results import Advice, Left, Sampled, Timeline, Waits
from clusterra_planner_tools.advise.sampling import sample, weighted_percentiles
from clusterra_planner_tools.simulate import catalogue as catalogues
from clusterra_planner_tools.simulate.catalogue import Catalogue, CatalogueUnreadable
from clusterra_planner_tools.simulate.columns import Columns
from clusterra_planner_tools.simulate.simulation import PolicyName
from clusterra_planner_tools.simulate.trace import BadPeriod, Job

SIMULATED = 20_000
"""How many jobs of each pool are simulated, unless the person says otherwise."""
COMPARED: tuple[PolicyName, ...] = ("packing", "family", "first-fit")
"""The policies that are simulated, unless the person says otherwise. A worker for each job takes long to simulate."""
COLUMNS = 240
_NAMED = 12
"""How many reasons are named; the rest count together."""
_DATED = 10 * 365 * 86400
"""A trace whose clock begins near 0 does not say when it was."""


@dataclass(frozen=True, slots=True)
class Request:
    """The input, and how to simulate its jobs."""

    path: Path
    read: ReadOptions = field(default_factory=ReadOptions)
    pools: PoolOptions = field(default_factory=PoolOptions)
    catalogue: Path | None = None
    """None: the catalogue of the installation that this is a part of."""
    policies: tuple[PolicyName, ...] = COMPARED
    fixed: tuple[str, ...] = ()
    simulated: int = SIMULATED


class CannotAdvise(ValueError):
    """There is nothing to advise on. The text says what to do."""


def advise(request: Request, progress: Progress = silent) -> Advice:
    """Read the input, simulate its jobs, and return what they would have cost. Raises CannotAdvise."""
    try:
        parts = _catalogue(request.catalogue)
        cpus = max(part.most_cpus for part in parts if part is not None)
        options = request.read if request.read.node_cpus else _spreading(request.read, cpus)
        found = read(request.path, options, progress)
        sorter = Sorter(parts, request.pools, found.counts)
        for job in found.trace.jobs:
            sorter.add(job)
        return _advice(request, found, sorter, progress)
    except (NotReadable, CatalogueUnreadable, BadPeriod) as error:
        raise CannotAdvise(str(error)) from None


def _spreading(options: ReadOptions, cpus: int) -> ReadOptions:
    return ReadOptions(options.basis, options.zone, options.since, options.until, cpus)


def _catalogue(path: Path | None) -> tuple[Catalogue | None, Catalogue | None]:
    if path is not None:
        return catalogues.read_parts(path)
    with as_file(files("clusterra_planner_tools.advise").joinpath("shapes.yaml")) as shipped:
        return catalogues.read_parts(shipped)


def _advice(request: Request, found: Read, sorter: Sorter, progress: Progress) -> Advice:
    pools = [pool for pool in sorter.pools.values() if pool.jobs]
    if not pools:
        reasons = "; ".join(f"{count} jobs {reason}" for reason, count in sorter.misfits.jobs.most_common(3))
        raise NotReadable(f"{request.path}: no shape holds any job ({reasons}); name bigger shapes with --catalogue")
    given = fixed.named(request.fixed, sorter.pools.values())
    jobs = [job for pool in pools for job in pool.jobs]
    begin = min(job.submit for job in jobs)
    end = max(_start(job) + job.run_seconds for job in jobs)
    samples = {pool.name: sample(pool.jobs, request.simulated) for pool in pools}
    policies = [simulate(policy, samples, sorter, progress) for policy in request.policies]
    first, simulations = policies[0]
    progress(fixed.TRIED, 0, None)
    divided = fixed.groups(pools)
    fleets = [fixed.at_peak(divided, end - begin), fixed.with_waits(divided, end - begin, first.waits.p95, progress)]
    if given:
        fleets.append(fixed.as_given(given, pools, end - begin))
    origin = found.trace.starts_at
    return Advice(
        input="standard input" if str(request.path) == "-" else request.path.name,
        format=found.format,
        basis=request.read.basis,
        begin=begin + origin,
        end=end + origin,
        dated=begin + origin > _DATED,
        records=found.counts.records,
        jobs=len(jobs),
        cpu_hours=fsum(job.nodes * job.cpus * job.run_seconds for job in jobs) / 3600,
        gpu_hours=fsum(job.nodes * job.gpus * job.run_seconds for job in jobs) / 3600,
        recorded_waits=_recorded_waits(jobs),
        bad=_left(found.counts.bad, first=found.counts.first_bad),
        skipped=_left(found.counts.skipped),
        assumed=_left(found.counts.assumed),
        misfits=_left(sorter.misfits.jobs, sorter.misfits.cpu_hours),
        sampled=Sampled(
            simulated=sum(len(each.jobs) for each in samples.values()),
            of=len(jobs),
            blocks=max(len(each.starts) for each in samples.values()),
        ),
        ideal_usd=fsum(pool.ideal_usd for pool in pools),
        on_demand=tuple(each for each, _ in policies),
        fixed=tuple(fleets),
        timeline=_timeline(jobs, begin, end, simulations),
    )


def _start(job: Job) -> float:
    return job.submit + (job.waited or 0.0)


def _recorded_waits(jobs: Iterable[Job]) -> Waits | None:
    known = [job.waited for job in jobs if job.waited is not None]
    if not known:
        return None
    p50, p95, p99 = weighted_percentiles([(known, 1.0)], PERCENTS)
    return Waits(p50=p50, p95=p95, p99=p99)


def _left(
    counted: Mapping[str, int], cpu_hours: Mapping[str, float] | None = None, first: Mapping[str, int] | None = None
) -> tuple[Left, ...]:
    ordered = sorted(counted.items(), key=lambda each: (-each[1], each[0]))
    listed = [
        Left(
            reason=reason,
            count=count,
            cpu_hours=None if cpu_hours is None else cpu_hours.get(reason),
            first=None if first is None else first.get(reason),
        )
        for reason, count in ordered[:_NAMED]
    ]
    if rest := sum(count for _, count in ordered[_NAMED:]):
        hours = None if cpu_hours is None else fsum(cpu_hours.get(reason, 0.0) for reason, _ in ordered[_NAMED:])
        listed.append(Left(reason="other reasons", count=rest, cpu_hours=hours))
    return tuple(listed)


def _timeline(jobs: Iterable[Job], begin: float, end: float, simulations: Sequence[PoolSimulation]) -> Timeline:
    demand, fleet = Columns(begin, end, COLUMNS), Columns(begin, end, COLUMNS)
    for job in jobs:
        demand.add(_start(job), _start(job) + job.run_seconds, job.nodes * job.cpus)
    whole = all(each.sample.whole for each in simulations)
    for each in simulations if whole else ():
        for worker in each.result.workers:
            fleet.add(worker.launch, worker.release, each.pool.catalogue[worker.shape].cpus)
    return Timeline(demand=tuple(demand.values), fleet=tuple(fleet.values) if whole else None)
