"""How fast the memory of a service grows, over several lives of its process."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

WARM_UP_SECONDS = 1200.0
"""The first time of a process does not count: it loads code, fills its caches, and has its first collections of
garbage (`clusterra_runtime.interpreter`). A scaler took its last step in its eighteenth minute."""
SHORTEST_SECONDS = 300.0
"""A process that was observed for less than this after its warm-up says nothing about its growth."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The memory of a process at some time."""

    pid: int
    age_seconds: float
    mib: float


def mib_per_hour(samples: Sequence[Sample]) -> float | None:
    """The common slope of all lives by least squares, each life with a level of its own; None without a long life."""
    lives: dict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.age_seconds >= WARM_UP_SECONDS:
            lives[sample.pid].append(sample)
    products = squares = 0.0
    for life in lives.values():
        ages = [sample.age_seconds for sample in life]
        if max(ages) - min(ages) < SHORTEST_SECONDS:
            continue
        mean_age, mean_mib = sum(ages) / len(life), sum(sample.mib for sample in life) / len(life)
        products += sum((sample.age_seconds - mean_age) * (sample.mib - mean_mib) for sample in life)
        squares += sum((age - mean_age) ** 2 for age in ages)
    return round(products / squares * 3600, 1) if squares else None
