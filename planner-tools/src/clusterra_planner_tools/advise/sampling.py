"""Chooses which jobs are simulated where all would take too long, and what the sample says of the whole.

The sample is systematic: blocks of consecutive jobs at even distances, so that each block is a cluster's real day with
its bursts. Cost is estimated by a ratio estimator: what the sample costs, divided by what it would cost if each job
paid for its own share alone, times that cost of the whole, which is known for all jobs exactly. Its error is estimated
by the jackknife over the blocks.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum, sqrt

from clusterra_planner_tools.simulate.trace import Job

BLOCKS = 20


@dataclass(frozen=True, slots=True)
class Sample:
    """The jobs that are simulated, in order of submission."""

    jobs: tuple[Job, ...]
    starts: tuple[float, ...]
    """When each block begins, by the submission of its first job."""
    of: int
    """How many jobs there are in all."""

    @property
    def whole(self) -> bool:
        """Whether all jobs are simulated."""
        return len(self.jobs) == self.of

    @property
    def weight(self) -> float:
        """How many jobs each one of the sample stands for."""
        return self.of / max(1, len(self.jobs))

    def block_of(self, moment: float) -> int:
        """The block at a moment."""
        return max(0, bisect_right(self.starts, moment) - 1)


def sample(jobs: Sequence[Job], most: int) -> Sample:
    """About `most` of the jobs in blocks, or all if there are no more."""
    if len(jobs) <= most or len(jobs) < 2 * BLOCKS:
        return Sample(tuple(jobs), (jobs[0].submit,) if jobs else (), len(jobs))
    size = max(1, most // BLOCKS)
    # The middle of each twentieth, so that neither end of the trace is always in the sample.
    firsts = [(2 * number + 1) * len(jobs) // (2 * BLOCKS) - size // 2 for number in range(BLOCKS)]
    blocks = [jobs[max(0, first) : max(0, first) + size] for first in firsts]
    return Sample(
        tuple(job for block in blocks for job in block), tuple(block[0].submit for block in blocks), len(jobs)
    )


@dataclass(frozen=True, slots=True)
class Estimate:
    """An amount, and the half width of its 95 % confidence interval; 0 where nothing was estimated."""

    amount: float
    margin: float = 0.0


def estimated(costs: Iterable[float], ideals: Iterable[float], whole_ideal: float) -> Estimate:
    """The cost of the whole, from the cost and the ideal cost of each block. The margin is by the jackknife."""
    pairs = [(cost, ideal) for cost, ideal in zip(costs, ideals, strict=True) if ideal > 0]
    cost, ideal = fsum(pair[0] for pair in pairs), fsum(pair[1] for pair in pairs)
    if not ideal:
        return Estimate(0.0)
    ratio, count = cost / ideal, len(pairs)
    if count < 2:
        return Estimate(ratio * whole_ideal)
    without = [(cost - one) / (ideal - other) for one, other in pairs if ideal > other]
    spread = sqrt((count - 1) / count * fsum((each - ratio) ** 2 for each in without))
    return Estimate(ratio * whole_ideal, 2.0 * spread * whole_ideal)


def weighted_percentiles(parts: Iterable[tuple[Iterable[float], float]], percents: Sequence[float]) -> list[float]:
    """Nearest-rank percentiles of values, each of which counts with the weight of its part; zeros without values."""
    values = sorted((value, weight) for part, weight in parts for value in part)
    if not values:
        return [0.0] * len(percents)
    total = fsum(weight for _, weight in values)
    found, reached, place = [], 0.0, -1
    for percent in sorted(percents):
        while place < len(values) - 1 and (place < 0 or reached < total * percent / 100 - 1e-9 * total):
            place += 1
            reached += values[place][1]
        found.append(values[place][0])
    return found
