"""Simulates the policies on the jobs of the pools."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from clusterra_contracts.registry import ScalingPolicy

from clusterra_planner_tools.advise.pools import Pool, PoolName, Sorter
from clusterra_planner_tools.advise.progress import Progress
from clusterra_planner_tools.advise.results import OnDemand, ShapeUse, Waits
from clusterra_planner_tools.advise.sampling import Estimate, Sample, estimated, weighted_percentiles
from clusterra_planner_tools.simulate.result import Result, WorkerRun
from clusterra_planner_tools.simulate.simulation import Options, PolicyName, run

PERCENTS = (50.0, 95.0, 99.0)


@dataclass(frozen=True, slots=True)
class PoolSimulation:
    """The simulation of a policy in a pool."""

    pool: Pool
    sample: Sample
    result: Result

    @property
    def waits(self) -> list[float]:
        """The waits of the simulated jobs, in seconds."""
        return [each.start - each.submit for each in self.result.jobs]

    def usd(self, worker: WorkerRun) -> float:
        """What a worker costs."""
        return (worker.release - worker.launch) * self.pool.catalogue[worker.shape].usd_per_second


def simulate(
    policy: PolicyName, samples: Mapping[PoolName, Sample], sorter: Sorter, progress: Progress
) -> tuple[OnDemand, list[PoolSimulation]]:
    """Run a policy as a cluster does that nobody has configured."""
    simulations = [_simulate(policy, sorter.pools[name], sample, progress) for name, sample in samples.items()]
    estimates = [_estimate(each, sorter) for each in simulations]
    p50, p95, p99 = weighted_percentiles(((each.waits, each.sample.weight) for each in simulations), PERCENTS)
    return (
        OnDemand(
            policy=policy,
            usd=fsum(each.amount for each in estimates),
            # The errors of two pools are independent enough: their samples are.
            usd_margin=fsum(each.margin**2 for each in estimates) ** 0.5,
            waits=Waits(p50=p50, p95=p95, p99=p99),
            utilisation=_utilisation(simulations),
            worker_starts=sum(len(each.result.workers) for each in simulations),
            shapes=_shapes(simulations),
        ),
        simulations,
    )


def _simulate(policy: PolicyName, pool: Pool, sample: Sample, progress: Progress) -> PoolSimulation:
    # Jobs with GPUs are served by first fit, whichever policy a cluster has.
    served: PolicyName = "first-fit" if pool.name == "GPU" and policy in ("packing", "family") else policy
    options = Options(served, keep_alive="learned", wait_usd_per_hour=ScalingPolicy().wait_usd_per_hour)
    named = policy if pool.name == "CPU" else f"{policy}, GPUs"
    result = run(sample.jobs, pool.catalogue, options, lambda ended: progress(named, ended, len(sample.jobs)))
    return PoolSimulation(pool, sample, result)


def _estimate(one: PoolSimulation, sorter: Sorter) -> Estimate:
    costs, ideals = [0.0] * len(one.sample.starts), [0.0] * len(one.sample.starts)
    for worker in one.result.workers:
        costs[one.sample.block_of(worker.launch)] += one.usd(worker)
    if one.sample.whole:
        return Estimate(fsum(costs))
    for job in one.sample.jobs:
        ideals[one.sample.block_of(job.submit)] += sorter.ideal_usd(job, one.pool)
    return estimated(costs, ideals, one.pool.ideal_usd)


def _utilisation(simulations: Iterable[PoolSimulation]) -> float:
    used = paid = 0.0
    for each in simulations:
        used += each.sample.weight * fsum(
            part.cpus * (job.end - job.start) for job in each.result.jobs for part in job.parts
        )
        paid += each.sample.weight * fsum(
            each.pool.catalogue[worker.shape].cpus * (worker.release - worker.launch) for worker in each.result.workers
        )
    return used / paid if paid else 0.0


def _shapes(simulations: Sequence[PoolSimulation]) -> tuple[ShapeUse, ...]:
    """The shapes on which most is spent, the most first."""
    hours: defaultdict[str, float] = defaultdict(float)
    prices: dict[str, float] = {}
    for each in simulations:
        for worker in each.result.workers:
            hours[worker.shape] += (worker.release - worker.launch) / 3600
            prices[worker.shape] = each.pool.catalogue[worker.shape].usd_per_second * 3600
    total = fsum(hours[shape] * prices[shape] for shape in hours) or 1.0
    used = [
        ShapeUse(shape=shape, hours=hours[shape], usd_per_hour=price, share=hours[shape] * price / total)
        for shape, price in prices.items()
    ]
    return tuple(sorted(used, key=lambda each: -each.share))
