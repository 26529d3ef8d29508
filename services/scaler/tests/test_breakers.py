"""The states of circuit breakers, and how long they pause."""

from clusterra_scaler.planner.observed.breakers import (
    LONGEST_PAUSE_SECONDS,
    LaunchFailure,
    ShapeBreaker,
    breakers_after,
)
from fleet_examples import CATALOGUE, at
from hypothesis import given
from hypothesis import strategies as st

steps = st.lists(st.tuples(st.floats(1, 4000), st.booleans(), st.booleans()), max_size=30)


@given(steps)
def test_pauses_double_up_to_half_an_hour_and_restart_after_as_long_without_a_failure(
    history: list[tuple[float, bool, bool]],
) -> None:
    breakers: tuple[ShapeBreaker, ...] = ()
    second = 0.0
    for seconds, fails, registers in history:
        second += seconds
        before = breakers
        failures = {"compute-xs": LaunchFailure("no capacity for compute-xs")} if fails else {}
        registered = {"compute-xs"} if registers else ()
        now = at(second)

        breakers = breakers_after(before, failures, registered, ["compute-xs"], now)

        assert breakers_after(breakers, failures, registered, ["compute-xs"], now) == breakers
        if breakers and breakers[0].failed_at == now:
            assert not before or not before[0].is_open(now), "a failure during a pause does not count"
            pause = (breakers[0].probe_at - now).total_seconds()
            assert pause == min(60.0 * 2 ** (breakers[0].failures - 1), 1800.0)
            assert breakers[0].failures == (before[0].failures + 1 if before else 1)
        elif before and not breakers:
            closed_at = before[0].closed_at
            assert closed_at is not None
            assert (now - closed_at).total_seconds() >= LONGEST_PAUSE_SECONDS


def test_there_are_no_more_breakers_than_shapes_in_the_catalogue() -> None:
    names = [shape.name for shape in CATALOGUE.shapes]
    failures = {name: LaunchFailure("no capacity", "x" * 5000) for name in (*names, "a removed shape")}

    breakers = breakers_after((), failures, (), names, at(0))

    assert len(breakers) == len(names)
    assert all(len(breaker.message) <= 200 for breaker in breakers)
    assert breakers_after(breakers, {}, (), names[:3], at(1)) == breakers[:3]
