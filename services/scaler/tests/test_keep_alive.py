"""Keep-alive times cost least for the observed gaps, and at most twice the optimum before any was observed."""

import pytest
from clusterra_scaler.planner.estimates.kaplan_meier import survival
from clusterra_scaler.planner.estimates.keep_alive import (
    MARGIN,
    MAX_GAPS,
    MIN_GAPS,
    WAITING_USD_PER_HOUR,
    Gap,
    KeepAlive,
    KeepAliveCosts,
    cheapest_seconds,
)
from hypothesis import given
from hypothesis import strategies as st

SHAPE = "compute-xs"
AT_MOST = 150.0
seconds = st.floats(0, 1000)
all_stakes = st.builds(KeepAliveCosts.of, st.floats(0.01, 40), st.floats(1, 600))


def after(*gaps: Gap, learned: float | None = None) -> KeepAlive:
    keep_alive = KeepAlive(learned={} if learned is None else {SHAPE: learned})
    for gap in gaps:
        keep_alive = keep_alive.with_gap(SHAPE, gap)
    return keep_alive


def ended(*gaps: float) -> tuple[Gap, ...]:
    return tuple(Gap(gap, ended=True) for gap in gaps)


def usd(kept: float, gaps: tuple[Gap, ...], stakes: KeepAliveCosts) -> float:
    """The mean cost of ended gaps when each worker is kept for `kept` seconds."""
    return sum(
        min(gap.seconds, kept) * stakes.usd_per_second + (gap.seconds > kept) * stakes.miss_usd for gap in gaps
    ) / len(gaps)


def test_censored_durations_count_as_longer() -> None:
    assert dict(survival([10.0, 30.0], [20.0])) == pytest.approx({10.0: 2 / 3, 30.0: 0.0})
    assert dict(survival([10.0], [10.0, 5.0])) == {10.0: 0.5}
    assert list(survival([], [20.0])) == []


@given(st.lists(seconds, min_size=1, max_size=60), all_stakes, st.floats(0, 1000), seconds)
def test_no_other_keep_alive_time_costs_less(
    gaps: list[float], stakes: KeepAliveCosts, at_most: float, other: float
) -> None:
    known = ended(*gaps)
    best = cheapest_seconds(known, stakes, at_most)
    assert 0 <= best <= at_most

    shortest = max((gap for gap in (0.0, *gaps) if gap <= best / MARGIN * (1 + 1e-9)), default=0.0)
    # The margin costs at most the seconds that it adds.
    slack = (best - shortest) * stakes.usd_per_second + 1e-9
    assert usd(best, known, stakes) <= usd(min(other, at_most), known, stakes) + slack


@given(seconds, all_stakes)
def test_without_observations_the_cost_is_at_most_twice_the_optimum(gap: float, stakes: KeepAliveCosts) -> None:
    kept = stakes.break_even_seconds(at_most=1e9)
    least = min(stakes.miss_usd, gap * stakes.usd_per_second)
    assert usd(kept, ended(gap), stakes) <= 2 * least * (1 + 1e-9) + (gap == 0) * stakes.miss_usd


def test_cheap_workers_are_kept_for_longer_than_dear_ones() -> None:
    """Half of the workers are used again after 100 s, the others never."""
    gaps = (*ended(*[100.0] * 10), *[Gap(AT_MOST, ended=False)] * 10)
    cheap, dear = KeepAliveCosts.of(0.1, boot_seconds=60), KeepAliveCosts.of(30.0, boot_seconds=60)
    assert cheapest_seconds(gaps, cheap, AT_MOST) == pytest.approx(MARGIN * 100)
    assert cheapest_seconds(gaps, dear, AT_MOST) == 0


def test_a_free_worker_is_kept_for_the_longest_time() -> None:
    free = KeepAliveCosts.of(0.0, boot_seconds=60)
    assert free.break_even_seconds(AT_MOST) == AT_MOST
    assert cheapest_seconds(ended(100.0, 120.0), free, AT_MOST) == pytest.approx(MARGIN * 120)


def test_the_estimate_is_used_once_enough_gaps_were_observed() -> None:
    stakes = KeepAliveCosts.of(WAITING_USD_PER_HOUR, boot_seconds=60)
    never = [Gap(AT_MOST, ended=False)] * MIN_GAPS
    assert after(*never[1:]).choose(SHAPE, stakes, AT_MOST)[1] == pytest.approx(120)
    assert after(*never).choose(SHAPE, stakes, AT_MOST)[1] == 0

    soon = ended(*[40.0] * MIN_GAPS)
    learned, kept = after(*soon).choose(SHAPE, stakes, AT_MOST)
    assert kept == pytest.approx(MARGIN * 40)
    assert learned.learned == {SHAPE: kept}
    assert after(*soon).choose("memory-xs", stakes, AT_MOST)[1] == pytest.approx(120)


def test_an_earlier_scalers_choice_is_used_until_enough_gaps_were_observed() -> None:
    stakes = KeepAliveCosts.of(WAITING_USD_PER_HOUR, boot_seconds=60)
    never = [Gap(AT_MOST, ended=False)] * MIN_GAPS
    assert after(*never[1:], learned=70).choose(SHAPE, stakes, AT_MOST) == (after(*never[1:], learned=70), 70)
    assert after(learned=70).choose(SHAPE, stakes, at_most=50)[1] == 50
    keep_alive, kept = after(*never, learned=70).choose(SHAPE, stakes, AT_MOST)
    assert (kept, keep_alive.learned) == (0, {SHAPE: 0})


@given(st.lists(st.builds(Gap, seconds, st.booleans()), max_size=500))
def test_the_number_of_remembered_gaps_is_bounded(gaps: list[Gap]) -> None:
    assert after(*gaps).gaps.get(SHAPE, ()) == tuple(gaps[-MAX_GAPS:])
