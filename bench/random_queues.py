"""Random queues for the planner: big ones, and small ones whose cheapest plan can be proved."""

import random
from collections.abc import Sequence
from math import exp

from clusterra_scaler.planner.estimates.remaining_time import MIDDLES, Remaining, expected
from clusterra_scaler.planner.packing.items import Group, Offering

HOUR = 3600.0
_BOOT_SECONDS = 60.0
_FAMILIES = (
    ("compute", 2, 0.03625, 0),
    ("general", 4, 0.0408, 0),
    ("memory", 8, 0.05355, 0),
    ("high-memory", 16, 0.0834, 0),
    ("gpu", 4, 0.13, 8),
)
"""Name, GiB per CPU, USD per CPU and hour, and CPUs per GPU."""
_SIZES = (2, 4, 8, 12, 16, 24, 32, 48, 64)
_CPUS = (1, 1, 1, 2, 2, 2, 4, 4, 4, 6, 8, 8, 10, 12, 16, 16, 20, 24, 32)
_GIB_PER_CPU = (0.5, 1, 2, 2, 3, 4, 4, 6, 8, 12)

OFFERINGS = tuple(
    Offering(
        f"{family}-{cpus}",
        cpus,
        float(cpus * gib),
        cpus * usd / HOUR,
        _BOOT_SECONDS,
        gpus=max(1, cpus // cpus_per_gpu) if cpus_per_gpu else 0,
    )
    for family, gib, usd, cpus_per_gpu in _FAMILIES
    for cpus in _SIZES
)


def queue(name: str, vectors: int, jobs: int, chance: random.Random) -> list[Group]:
    """Groups of jobs with different resource vectors; a few groups have most jobs. Run times look like learned ones."""
    counts = [1] * vectors
    for _ in range(jobs - vectors):
        counts[int(vectors * chance.random() ** 2)] += 1
    groups: dict[tuple[int, float, int, int], Group] = {}
    while len(groups) < vectors:
        cpus = chance.choice(_CPUS)
        memory_gib = round(cpus * chance.choice(_GIB_PER_CPU) * chance.uniform(0.5, 1.1), 2)
        gpus = chance.choice((1, 1, 2)) if cpus <= 16 and chance.random() < 0.04 else 0
        nodes = chance.choice((2, 3, 4, 8)) if chance.random() < 0.03 else 1
        number = len(groups)
        groups.setdefault(
            (cpus, memory_gib, gpus, nodes),
            Group(
                job_ids=tuple(f"{name}-{number}-{job}" for job in range(counts[number])),
                cpus=cpus,
                memory_gib=memory_gib,
                remaining=_run_time(chance),
                nodes=nodes,
                gpus=gpus,
                exclusive=chance.random() < 0.02,
                owner=f"user-{number % 50}",
            ),
        )
    return list(groups.values())


def small(seed: int) -> tuple[list[tuple[int, float]], list[Offering]]:
    """A small instance: 5 to 20 jobs with CPUs and GiB, and 3 to 8 shapes, one of which fits each job.

    For odd seeds the shapes are a sample of OFFERINGS, for even ones they have random sizes and prices.
    """
    chance = random.Random(seed)
    plain = [each for each in OFFERINGS if not each.gpus]
    shapes = chance.randint(3, 8)
    while True:
        offerings = (
            chance.sample(plain, shapes) if seed % 2 else [_any_shape(number, chance) for number in range(shapes)]
        )
        jobs: list[tuple[int, float]] = []
        wanted = chance.randint(5, 20)
        for _ in range(1000):
            cpus = chance.choice(_CPUS)
            memory_gib = round(cpus * chance.choice(_GIB_PER_CPU) * chance.uniform(0.5, 1.1), 1)
            if len(jobs) < wanted and _held(cpus, memory_gib, offerings):
                jobs.append((cpus, memory_gib))
        if len(jobs) == wanted:
            return jobs, offerings


def _any_shape(number: int, chance: random.Random) -> Offering:
    cpus = chance.choice((2, 4, 8, 12, 16, 24, 32, 48, 64))
    memory_gib = float(cpus * chance.choice((1, 2, 3, 4, 6, 8)))
    usd_per_hour = (cpus * 0.03 + memory_gib * 0.003) * chance.uniform(0.8, 1.2)
    return Offering(f"shape-{number}", cpus, memory_gib, usd_per_hour / HOUR, _BOOT_SECONDS)


def _held(cpus: int, memory_gib: float, offerings: Sequence[Offering]) -> bool:
    return any(cpus <= each.cpus and memory_gib <= each.memory_gib for each in offerings)


def _run_time(chance: random.Random) -> Remaining:
    """An exponential run time, cut off at a limit."""
    mean_seconds = chance.lognormvariate(0.5, 1.3) * HOUR
    limit_seconds = mean_seconds * chance.uniform(2.0, 10.0)
    return expected([exp(-middle / mean_seconds) if middle < limit_seconds else 0.0 for middle in MIDDLES])
