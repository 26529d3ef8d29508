"""Growth is that within the lives of a process, not that from one life to the next."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from soak.memory import WARM_UP_SECONDS, Sample, mib_per_hour


def life(pid: int, level: float, per_hour: float, seconds: int) -> list[Sample]:
    return [Sample(pid, age, level + per_hour * age / 3600) for age in range(0, seconds, 5)]


@given(st.floats(-50, 500), st.lists(st.integers(1600, 2600), min_size=1, max_size=5))
def test_the_slope_of_several_lives_with_different_levels(per_hour: float, lives: list[int]) -> None:
    samples = [each for pid, seconds in enumerate(lives) for each in life(pid, 100.0 * pid, per_hour, seconds)]

    assert mib_per_hour(samples) == pytest.approx(per_hour, abs=0.1)


def test_short_lives_and_warm_ups_say_nothing() -> None:
    assert mib_per_hour(life(1, 100, 3600, int(WARM_UP_SECONDS) + 50)) is None
    warming = [Sample(1, age, 1000.0 - age) for age in range(0, int(WARM_UP_SECONDS), 5)]
    assert mib_per_hour([*warming, *(Sample(1, WARM_UP_SECONDS + age, 100.0) for age in range(0, 400, 5))]) == 0.0
