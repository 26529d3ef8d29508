"""Compares plans for small random queues with proved optima."""

import statistics
import sys
from collections.abc import Sequence

from clusterra_scaler.planner.estimates.remaining_time import certain
from clusterra_scaler.planner.packing.bins import Bin, cheapest_new_worker
from clusterra_scaler.planner.packing.items import Group, Offering
from clusterra_scaler.planner.packing.pack import pack
from clusterra_scaler.planner.packing.settings import Settings
from optimum import optimum
from random_queues import HOUR, small
from stopwatch import Clock

RUN_SECONDS = 4 * HOUR


def against_optimum(instances: int, most_seconds: float) -> dict[str, object]:
    """The price of the bought workers divided by the lower bound of the optimum, which is nearly always proved."""
    ratios: list[float] = []
    first_fits: list[float] = []
    clock = Clock()
    proved = 0
    for seed in range(instances):
        jobs, offerings = small(seed)
        best = optimum(jobs, offerings, most_seconds)
        proved += best.found <= best.bound * 1.001
        groups = [
            Group((str(number),), cpus, memory_gib, certain(RUN_SECONDS))
            for number, (cpus, memory_gib) in enumerate(jobs)
        ]
        with clock():
            packing = pack(groups, [], offerings, Settings())
        ratios.append(usd_per_hour([each.offering for each in packing.purchases]) / best.bound)
        first_fits.append(usd_per_hour(first_fit(groups, offerings)) / best.bound)
        if seed % 20 == 19:
            so_far = f"mean {statistics.mean(ratios):.4f}, worst {max(ratios):.4f}"
            print(f"  {seed + 1} of {instances} optima: {so_far}", file=sys.stderr, flush=True)
    return {
        "mean": round(statistics.mean(ratios), 4),
        "worst": round(max(ratios), 4),
        "first_fit_mean": round(statistics.mean(first_fits), 4),
        "first_fit_worst": round(max(first_fits), 4),
        "instances": instances,
        "proved": proved,
        **clock.figures(),
    }


def usd_per_hour(bought: Sequence[Offering]) -> float:
    return sum(each.usd_per_second for each in bought) * HOUR


def first_fit(groups: Sequence[Group], offerings: Sequence[Offering]) -> list[Offering]:
    """The workers that first fit buys, biggest jobs first; a job goes to the first bin that fits, else to a new one."""
    bins: list[Bin] = []
    for group in sorted(groups, key=lambda each: -each.cpus):
        found = next((bin_ for bin_ in bins if bin_.fits(group)), None)
        if found is None:
            new = cheapest_new_worker(group, offerings, Settings(credit=0.0))
            if new is None:
                raise ValueError(f"no shape holds job {group.job_ids[0]}")
            found = Bin.of("", new[1])
            bins.append(found)
        found.add(group)
    return [bin_.offering for bin_ in bins]
