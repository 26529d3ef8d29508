"""How the steps of a run share its cost. Pure: a cost and times in, whole micro-USD out.

At each moment a step pays its **dominant share** of the run's allocation: the largest of its parts of the CPUs, memory
and GPUs. Where the shares of parallel steps add up to more than the whole run, each pays in proportion to its share.
What no step pays is the remainder: the batch script, and what no step used.

The cost of a run counts as even over the run's time. With `S(t)` the sum of the shares at a moment, a step with the
share `s` has the part `s * integral of 1 / max(S, 1)` over its own time, of the run's whole time. So the parts of all
steps never add up to more than the whole, and the amounts and the remainder are the cost exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from clusterra_contracts.rpc.slurm_steps import Allocation

_SCALE = 2**64
"""Weighted time is counted in this many parts of a time unit, as integers: sums of fractions would grow without end."""


@dataclass(frozen=True, slots=True)
class StepUse:
    """A step's share of its run (0 to 1), and its time, in the unit and from the origin of the run's own times."""

    share: Fraction
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Split:
    """Whole micro-USD of the steps in their order, and of the remainder. Together they are what was split."""

    steps: tuple[int, ...]
    remainder: int


def share_of(step: Allocation, run: Allocation) -> Fraction:
    """Return the dominant share of a run that a step has; 0 if Slurm tells nothing of what it has."""
    parts = ((step.cpus, run.cpus), (step.memory_mib, run.memory_mib), (step.gpus, run.gpus))
    return min(Fraction(1), max((Fraction(has, of) for has, of in parts if of > 0), default=Fraction(0)))


def split(micro_usd: int, start: int, end: int, steps: Sequence[StepUse]) -> Split:
    """Split the cost of a run from `start` to `end` among its steps. A step counts within the run's time only."""
    elapsed = end - start
    if elapsed <= 0:
        return Split((0,) * len(steps), micro_usd)
    clipped = [StepUse(each.share, max(each.start, start), min(each.end, end)) for each in steps]
    weighted = _weighted_time(clipped)
    parts = [
        each.share.numerator * (weighted[each.end] - weighted[each.start]) // each.share.denominator
        if each.end > each.start
        else 0
        for each in clipped
    ]
    whole = elapsed * _SCALE
    amounts = _rounded(micro_usd, [*parts, whole - sum(parts)], whole)
    return Split(tuple(amounts[:-1]), amounts[-1])


def _weighted_time(steps: Sequence[StepUse]) -> dict[int, int]:
    """Return at each start and end the time so far, in which a moment counts by 1 / max(S, 1), rounded down."""
    changes: dict[int, Fraction] = {}
    for each in steps:
        if each.end > each.start:
            changes[each.start] = changes.get(each.start, Fraction(0)) + each.share
            changes[each.end] = changes.get(each.end, Fraction(0)) - each.share
    weighted, total, at, passed = dict[int, int](), Fraction(0), 0, 0
    for moment in sorted(changes):
        whole = max(total, Fraction(1))
        passed += (moment - at) * _SCALE * whole.denominator // whole.numerator if weighted else 0
        weighted[moment] = passed
        total, at = total + changes[moment], moment
    return weighted


def _rounded(amount: int, parts: Sequence[int], whole: int) -> list[int]:
    """Split a whole amount in proportion to parts that add up to `whole` (the largest-remainder method)."""
    rounded = [amount * part // whole for part in parts]
    by_remainder = sorted(range(len(parts)), key=lambda n: (-(amount * parts[n] % whole), n))
    for number in by_remainder[: amount - sum(rounded)]:
        rounded[number] += 1
    return rounded
