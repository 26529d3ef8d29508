"""Token buckets by key."""

from clusterra_runtime.rate_limit import MAX_KEYS, RateLimit
from hypothesis import given
from hypothesis import strategies as st


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@given(st.lists(st.floats(0, 5), min_size=1, max_size=60), st.integers(1, 5))
def test_no_key_gets_more_than_its_burst_and_its_rate(pauses: list[float], burst: int) -> None:
    clock = Clock()
    limit = RateLimit(per_second=1.0, burst=burst, clock=clock)
    admitted = 0

    for pause in pauses:
        clock.seconds += pause
        admitted += limit.admits("noisy")

    assert admitted <= burst + clock.seconds + 1e-6
    assert limit.admits("quiet")


def test_the_table_is_bounded() -> None:
    limit = RateLimit(per_second=1.0, burst=1)

    for number in range(MAX_KEYS + 10):
        limit.admits(str(number))

    assert len(limit._buckets) == MAX_KEYS


@given(st.integers(1, 5), st.integers(0, 8))
def test_what_is_left_and_when_more_is_there(burst: int, taken: int) -> None:
    clock = Clock()
    limit = RateLimit(per_second=0.5, burst=burst, clock=clock)
    for _ in range(taken):
        limit.take("ada")

    last = limit.take("ada")
    clock.seconds += last.next_seconds
    again = limit.take("ada")

    assert last.left == max(0, burst - taken - 1)
    assert last.full_seconds == 2.0 * (burst - last.left)
    assert again.admitted
