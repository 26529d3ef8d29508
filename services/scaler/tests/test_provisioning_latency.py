"""Provisioning latencies, with workers that never registered as censored observations."""

import pytest
from clusterra_scaler.planner.estimates.provisioning_latency import (
    GIVEN_UP_IN_A_ROW,
    MARGIN,
    MAX_REMEMBERED,
    MIN_REGISTERED,
    ProvisioningLatency,
    ShapeLatency,
    p99,
)
from fleet_examples import binding
from hypothesis import given
from hypothesis import strategies as st

POLICY = binding(boot_timeout_seconds=480).policy
SHAPE = "compute-xs"
seconds = st.floats(0, 2000)


def latency(*ended: float, recorded: float | None = None) -> ProvisioningLatency:
    learned = ProvisioningLatency(recorded={} if recorded is None else {SHAPE: recorded})
    for each in ended:
        learned = learned.with_registered(SHAPE, each)
    return learned


@pytest.mark.parametrize(
    ("ended", "given_up", "expected"),
    [
        ([], [], None),
        ([], [480.0], None),
        ([60.0], [], 60.0),
        ([float(n) for n in range(1, 101)], [], 99.0),
        ([float(n) for n in range(1, 201)], [], 198.0),
        ([float(n) for n in range(1, 101)], [480.0], 100.0),
    ],
)
def test_the_99th_percentile(ended: list[float], given_up: list[float], expected: float | None) -> None:
    assert p99(ended, given_up) == expected


@given(st.lists(seconds, min_size=1, max_size=250), st.lists(seconds, max_size=50), seconds)
def test_a_worker_that_was_given_up_never_lowers_the_estimate(
    ended: list[float], given_up: list[float], more: float
) -> None:
    before, after = p99(ended, given_up), p99(ended, [*given_up, more])
    assert before is not None
    assert after is not None
    assert before <= after <= max(ended)


@given(st.lists(st.tuples(st.booleans(), seconds), max_size=600))
def test_the_number_of_remembered_workers_is_bounded(history: list[tuple[bool, float]]) -> None:
    times = ShapeLatency()
    for ended, each in history:
        times = times.with_registered(each) if ended else times.with_given_up(each)
    assert len(times.registered) <= MAX_REMEMBERED
    assert len(times.given_up) <= MAX_REMEMBERED


def test_only_a_slow_shape_gets_more_time() -> None:
    slow = latency(*[500.0] * 10)
    assert slow.limit_seconds(SHAPE, POLICY) == MARGIN * 500
    assert slow.limit_seconds("memory-xs", POLICY) == 480
    assert latency(*[60.0] * 10).limit_seconds(SHAPE, POLICY) == 480


def test_an_earlier_scalers_estimate_is_used_until_enough_workers_registered() -> None:
    record = latency(500.0).p99_seconds()
    assert record == {SHAPE: 500.0}
    assert ProvisioningLatency(record).p99_seconds() == record
    assert latency(60.0, recorded=500.0).limit_seconds(SHAPE, POLICY) == MARGIN * 500
    assert latency(700.0, recorded=500.0).limit_seconds(SHAPE, POLICY) == MARGIN * 700
    assert latency(*[60.0] * MIN_REGISTERED, recorded=500.0).limit_seconds(SHAPE, POLICY) == 480


def test_the_typical_latency_is_the_median() -> None:
    assert ProvisioningLatency().typical_seconds(SHAPE) is None
    assert latency(recorded=90.0).typical_seconds(SHAPE) == 90
    assert latency(40.0, 60.0, 500.0, recorded=90.0).typical_seconds(SHAPE) == 60
    assert latency(40.0, 60.0).with_given_up(SHAPE, 480.0).typical_seconds(SHAPE) == 60
    assert latency(40.0, 60.0, 500.0).typical_seconds("memory-xs") == 60
    assert ProvisioningLatency({SHAPE: 40.0, "compute-xlarge": 60.0}).typical_seconds("memory-xs") == 40


def test_the_limit_doubles_up_to_a_bound_while_no_worker_registers() -> None:
    learned, limits = ProvisioningLatency(), []
    for _ in range(4 * GIVEN_UP_IN_A_ROW):
        learned = learned.with_given_up(SHAPE, learned.limit_seconds(SHAPE, POLICY))
        limits.append(learned.limit_seconds(SHAPE, POLICY))
    assert limits == [480, 480, 960, 960, 960, 1920, 1920, 1920, 1920, 1920, 1920, 1920]
    assert learned.with_registered(SHAPE, 60.0).limit_seconds(SHAPE, POLICY) == 480
