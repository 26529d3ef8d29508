"""Generations."""

import time

from clusterra_runtime.clock import generation
from hypothesis import given, strategies


@given(strategies.integers(min_value=0, max_value=2**62))
def test_a_generation_is_larger_than_the_last_and_at_least_the_time(after: int) -> None:
    earliest = int(time.time() * 1000) - 1
    made = generation(after)
    assert made > after
    assert made >= earliest
    assert made == after + 1 or made <= int(time.time() * 1000) + 1


def test_generations_continue_after_a_clock_that_was_ahead() -> None:
    ahead = generation(0) + 10_000_000
    assert generation(ahead) == ahead + 1
