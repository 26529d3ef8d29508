"""Fixed fleets for the same work: sized by its peak, sized for the same waits, or as the person says."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from math import fsum

from clusterra_scaler.planner.packing.items import Offering

from clusterra_planner_tools.advise.fixed_fleet import TooManyWait, fewest_nodes, peak_nodes, waits
from clusterra_planner_tools.advise.left_out import NotReadable
from clusterra_planner_tools.advise.on_demand import PERCENTS
from clusterra_planner_tools.advise.pools import Pool
from clusterra_planner_tools.advise.progress import Progress, silent
from clusterra_planner_tools.advise.results import Fixed, FixedGroup, Waits
from clusterra_planner_tools.advise.sampling import weighted_percentiles
from clusterra_planner_tools.simulate.trace import Job

_GIVEN = re.compile(r"(\d{1,6})\s*[x×*]\s*([A-Za-z0-9._-]{1,64})")
TRIED = "fixed fleets tried"
"""What the progress counts while the fewest nodes are sought."""
_LATE = 0.05
"""The share of jobs that may wait for longer than the 95th percentile on demand."""


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs that run on equal nodes, as in a partition."""

    offering: Offering
    jobs: Sequence[Job]


def groups(pools: Iterable[Pool]) -> list[Group]:
    """How a site would divide its nodes: the cheapest shape for as many jobs as fit it, others for the rest.

    Shapes are the largest of their family, as fixed nodes are large. Cheapest is what costs least for the peak.
    """
    return [group for pool in pools if pool.jobs for group in _cheapest(pool, pool.jobs)]


def _cheapest(pool: Pool, jobs: Sequence[Job]) -> list[Group]:
    found: list[tuple[float, list[Group]]] = []
    for offering in _largest(pool):
        held = [job for job in jobs if _holds(offering, job)]
        if held:
            rest = [job for job in jobs if not _holds(offering, job)] if len(held) < len(jobs) else []
            divided = [Group(offering, held), *(_cheapest(pool, rest) if rest else ())]
            found.append(
                (fsum(each.offering.usd_per_second * peak_nodes(each.jobs, each.offering) for each in divided), divided)
            )
    if found:
        return min(found, key=lambda each: each[0])[1]
    # Only a small shape of an odd catalogue holds them.
    job = jobs[0]
    offering = pool.catalogue.fitting(job)[0]
    rest = [each for each in jobs if not _holds(offering, each)]
    return [
        Group(offering, [each for each in jobs if _holds(offering, each)]),
        *(_cheapest(pool, rest) if rest else ()),
    ]


def _largest(pool: Pool) -> list[Offering]:
    by_family: dict[str, Offering] = {}
    for shape in pool.catalogue.shapes.shapes:
        offering = pool.catalogue[shape.name]
        if shape.family not in by_family or offering.cpus > by_family[shape.family].cpus:
            by_family[shape.family] = offering
    return list(by_family.values())


def _holds(offering: Offering, job: Job) -> bool:
    return (
        job.cpus <= offering.cpus
        and job.memory_gib <= offering.memory_gib
        and job.gpus <= offering.gpus
        and (job.shapes is None or offering.shape in job.shapes)
    )


def at_peak(divided: Sequence[Group], seconds: float) -> Fixed:
    """The fleet that holds everything at the busiest moment."""
    sizes = [peak_nodes(each.jobs, each.offering) for each in divided]
    return simulated("sized for the peak", list(zip(divided, sizes, strict=True)), seconds)


def with_waits(divided: Sequence[Group], seconds: float, p95: float, progress: Progress = silent) -> Fixed:
    """The smallest fleet on which 95 % of the jobs wait no longer than on demand."""
    fleets = count(1)
    sizes = [
        fewest_nodes(each.jobs, each.offering, p95, _LATE, lambda: progress(TRIED, next(fleets), None))
        for each in divided
    ]
    return simulated("sized for the same waits (p95)", list(zip(divided, sizes, strict=True)), seconds)


def named(texts: Sequence[str], pools: Iterable[Pool]) -> list[tuple[Offering, int]]:
    """The shapes and nodes of a fleet such as `40×general-xlarge`. Raises NotReadable for a text that is none."""
    known = {each.shape: each for pool in pools for each in pool.catalogue.offerings}
    parts: list[tuple[Offering, int]] = []
    for one in (part.strip() for text in texts for part in text.split(",")):
        match = _GIVEN.fullmatch(one)
        if match is None or match[2] not in known or not int(match[1]):
            raise NotReadable(
                f"--fixed {one!r}: give NODES×SHAPE, such as 40×general-xlarge; SHAPE is one of {', '.join(known)}"
            )
        parts.append((known[match[2]], int(match[1])))
    return parts


def as_given(parts: Sequence[tuple[Offering, int]], pools: Iterable[Pool], seconds: float) -> Fixed:
    """The fleet that the person names. A job runs on the first of its shapes that holds it."""
    jobs: list[list[Job]] = [[] for _ in parts]
    without = 0
    for pool in pools:
        for job in pool.jobs:
            place = next(
                (at for at, (each, nodes) in enumerate(parts) if _holds(each, job) and job.nodes <= nodes), None
            )
            if place is None:
                without += 1
            else:
                jobs[place].append(job)
    sized = [(Group(offering, held), nodes) for (offering, nodes), held in zip(parts, jobs, strict=True)]
    return simulated("as given", sized, seconds, without)


def simulated(name: str, sized: Sequence[tuple[Group, int]], seconds: float, without: int = 0) -> Fixed:
    """What a fleet costs in this time, and how long jobs wait there."""
    try:
        waited = [(waits(group.jobs, group.offering, nodes)[0], 1.0) for group, nodes in sized]
    except TooManyWait:
        waited = []
    p50, p95, p99 = weighted_percentiles(waited, PERCENTS)
    paid = fsum(nodes * group.offering.cpus * seconds for group, nodes in sized)
    used = fsum(job.nodes * job.cpus * job.run_seconds for group, _ in sized for job in group.jobs)
    totals: Counter[str] = Counter()
    held: Counter[str] = Counter()
    cpus = {group.offering.shape: group.offering.cpus for group, _ in sized}
    for group, nodes in sized:
        totals[group.offering.shape] += nodes
        held[group.offering.shape] += len(group.jobs)
    return Fixed(
        name=name,
        groups=tuple(
            FixedGroup(shape=shape, cpus=cpus[shape], nodes=nodes, jobs=held[shape]) for shape, nodes in totals.items()
        ),
        usd=fsum(nodes * group.offering.usd_per_second * seconds for group, nodes in sized),
        utilisation=min(1.0, used / paid) if paid else 0.0,
        waits=None if not waited else Waits(p50=p50, p95=p95, p99=p99),
        jobs_without_a_place=without,
    )
