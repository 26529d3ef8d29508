"""How steps share the cost of their run: exact sums, no more than the whole, in proportion where they overlap."""

from fractions import Fraction

import pytest
from clusterra_contracts.rpc.slurm_steps import Allocation
from clusterra_gateway.money.costs.job_steps import StepUse, share_of, split
from hypothesis import given
from hypothesis import strategies as st

SHARES = st.fractions(min_value=0, max_value=1, max_denominator=512)
TIMES = st.integers(-50, 4000)
STEPS = st.lists(st.builds(StepUse, SHARES, TIMES, TIMES), max_size=30)
COSTS = st.integers(0, 10**12)
COUNTS = st.integers(0, 10**6)
ALLOCATIONS = st.builds(Allocation, cpus=COUNTS, memory_mib=COUNTS, gpus=COUNTS, nodes=COUNTS)


def by_moments(micro_usd: int, elapsed: int, steps: list[StepUse]) -> list[Fraction]:
    """What each step pays, moment by moment as the rule says it, without rounding."""
    paid = [Fraction(0)] * len(steps)
    for moment in range(elapsed):
        running = [each.start <= moment < each.end for each in steps]
        total = sum((each.share for each, runs in zip(steps, running, strict=True) if runs), Fraction(0))
        for number, (each, runs) in enumerate(zip(steps, running, strict=True)):
            if runs:
                paid[number] += micro_usd * each.share / max(total, Fraction(1)) / elapsed
    return paid


@given(COSTS, st.integers(0, 4000), STEPS)
def test_steps_and_remainder_are_the_cost_exactly(micro_usd: int, elapsed: int, steps: list[StepUse]) -> None:
    found = split(micro_usd, 0, elapsed, steps)

    assert sum(found.steps) + found.remainder == micro_usd
    assert len(found.steps) == len(steps)
    assert min(*found.steps, found.remainder, 0) == 0


@given(COSTS, st.integers(1, 40), st.lists(st.builds(StepUse, SHARES, st.integers(-5, 50), st.integers(-5, 50))))
def test_each_step_pays_what_the_rule_says_moment_by_moment(micro_usd: int, elapsed: int, steps: list[StepUse]) -> None:
    found = split(micro_usd, 0, elapsed, steps)

    for amount, exact in zip(found.steps, by_moments(micro_usd, elapsed, steps), strict=True):
        assert abs(amount - exact) <= 1


@given(COSTS, st.integers(1, 4000), STEPS, st.integers(-(10**12), 10**12))
def test_only_the_time_since_the_runs_start_counts(
    micro_usd: int, elapsed: int, steps: list[StepUse], origin: int
) -> None:
    moved = [StepUse(each.share, each.start + origin, each.end + origin) for each in steps]

    assert split(micro_usd, origin, origin + elapsed, moved) == split(micro_usd, 0, elapsed, steps)


@given(COSTS, st.integers(1, 4000), STEPS, SHARES)
def test_another_step_makes_none_dearer(micro_usd: int, elapsed: int, steps: list[StepUse], share: Fraction) -> None:
    alone = split(micro_usd, 0, elapsed, steps)

    beside = split(micro_usd, 0, elapsed, [*steps, StepUse(share, 0, elapsed)])

    assert all(after <= before + 1 for after, before in zip(beside.steps[:-1], alone.steps, strict=True))


@given(ALLOCATIONS, ALLOCATIONS)
def test_a_share_is_the_largest_part_and_never_more_than_the_run(step: Allocation, run: Allocation) -> None:
    share = share_of(step, run)

    assert 0 <= share <= 1
    assert share == 1 or share * run.cpus >= step.cpus or run.cpus == 0
    assert share == 1 or share * run.memory_mib >= step.memory_mib or run.memory_mib == 0


@pytest.mark.parametrize(
    ("steps", "amounts", "remainder"),
    [
        ([], (), 100),
        ([StepUse(Fraction(1, 2), 0, 10)], (50,), 50),
        ([StepUse(Fraction(1), 0, 10), StepUse(Fraction(1), 0, 10)], (50, 50), 0),
        # The first runs alone for a half, and shares the other half with one as large: 50 + 25.
        ([StepUse(Fraction(1), 0, 10), StepUse(Fraction(1), 5, 10)], (75, 25), 0),
        # 3/4 and 1/2 are too much for one run: they pay 3/5 and 2/5.
        ([StepUse(Fraction(3, 4), 0, 10), StepUse(Fraction(1, 2), 0, 10)], (60, 40), 0),
        # It is still noted as running after its run.
        ([StepUse(Fraction(1, 2), 5, 99)], (25,), 75),
    ],
)
def test_examples(steps: list[StepUse], amounts: tuple[int, ...], remainder: int) -> None:
    found = split(100, 0, 10, steps)

    assert (found.steps, found.remainder) == (amounts, remainder)
