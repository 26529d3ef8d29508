"""The cache against a model of it: a list of what was used, the last use last."""

from functools import partial

from clusterra_runtime.bounded_cache import BoundedCache
from hypothesis import given
from hypothesis import strategies as st

STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "get", "pop", "forget", "wait"]), st.integers(0, 6), st.integers(1, 5))
)


def has(number: int, _key: int, value: int) -> bool:
    return value == number


@given(most=st.integers(1, 4), seconds=st.integers(1, 6), steps=STEPS)
def test_it_remembers_the_last_used_values_that_are_not_too_old(
    most: int, seconds: int, steps: list[tuple[str, int, int]]
) -> None:
    at = 0.0
    cache, model = BoundedCache[int, int](most, seconds, clock=lambda: at), list[tuple[int, int, float]]()

    for step, key, number in steps:
        known = next((each for each in model if each[0] == key), None)
        expected = None if known is None or known[2] <= at else known[1]
        others = [each for each in model if each[0] != key]
        match step:
            case "put":
                cache.put(key, number)
                model = [*others, (key, number, at + seconds)][-most:]
            case "get":
                assert (key in cache) == (expected is not None)
                assert cache.get(key) == expected
                model = others if known is None or expected is None else [*others, known]
            case "pop":
                assert cache.pop(key) == expected
                model = others
            case "forget":
                cache.forget(partial(has, number))
                model = [each for each in model if each[1] != number]
            case _:
                at += number
        assert len(cache) == len(model) <= most


def test_a_value_may_have_a_time_of_its_own() -> None:
    at = 0.0
    cache = BoundedCache[str, str](2, clock=lambda: at)

    cache.put("short", "x", seconds=1.0)
    cache.put("for ever", "y")
    at = 1.0

    assert (cache.get("short"), cache.get("for ever")) == (None, "y")
