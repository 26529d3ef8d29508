"""Requests for generic resources, and whether they fit into what is free."""

from collections import Counter

import pytest
from clusterra_contracts.gres import (
    Gres,
    fits,
    gpu_count,
    max_concurrent,
    parse_spec,
    subtract,
    with_types,
)
from hypothesis import given
from hypothesis import strategies as st

NAMES = ("gpu:l4", "gpu:h100", "gpu", "shard")
any_free = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 8))
any_request = st.lists(st.builds(Gres, st.sampled_from(NAMES), st.integers(1, 8)), max_size=3).map(tuple)


def request(*items: str) -> tuple[Gres, ...]:
    return tuple(Gres(name, int(count)) for name, _, count in (item.partition("=") for item in items))


@pytest.mark.parametrize(
    ("asked", "free", "times"),
    [
        (request("gpu=1"), {"gpu:l4": 3}, 3),
        (request("gpu=2"), {"gpu:l4": 3}, 1),
        (request("gpu=2"), {"gpu:l4": 3, "gpu:h100": 1}, 2),
        (request("gpu=1"), {}, 0),
        (request("gpu:l4=1"), {"gpu:l4": 3, "gpu:h100": 1}, 3),
        (request("gpu:l4=1"), {"gpu:h100": 8}, 0),
        (request("gpu:l4=1"), {"gpu": 8}, 0),
        (request("gpu=1", "gpu:l4=1"), {"gpu:l4": 1, "gpu:h100": 1}, 1),
        (request("gpu=1", "gpu:l4=1"), {"gpu:l4": 1}, 0),
        (request("gpu=1", "gpu:l4=1"), {"gpu:l4": 4, "gpu:h100": 2, "gpu": 2}, 4),
        (request("gpu=1", "shard=2"), {"gpu:l4": 8, "shard": 5}, 2),
    ],
)
def test_how_many_equal_requests_fit_at_the_same_time(
    asked: tuple[Gres, ...], free: dict[str, int], times: int
) -> None:
    assert max_concurrent(asked, free) == times


def test_the_resources_of_a_worker_are_parsed() -> None:
    assert parse_spec("gpu:l4:4") == {"gpu:l4": 4}
    assert parse_spec("") == {}


def test_types_that_slurm_does_not_report_are_those_of_the_shape() -> None:
    assert with_types({"gpu": 4}, parse_spec("gpu:l4:4")) == {"gpu:l4": 4}
    assert with_types({"gpu": 3}, parse_spec("gpu:l4:4")) == {"gpu": 3}
    assert with_types({"gpu:h100": 4}, parse_spec("gpu:l4:4")) == {"gpu:h100": 4}
    assert with_types({}, parse_spec("gpu:l4:4")) == {}


@given(any_request, any_free)
def test_subtraction_removes_exactly_what_is_taken(asked: tuple[Gres, ...], free: dict[str, int]) -> None:
    before = dict(free)

    left = subtract(asked, free)

    assert free == before, "the argument is not changed"
    assert left.keys() == free.keys()
    assert all(0 <= left[name] <= free[name] for name in free)
    taken = sum(free.values()) - sum(left.values())
    requested = sum(each.count for each in asked)
    assert taken <= requested
    assert fits(asked, free) == (taken == requested)


@given(any_request, any_free)
def test_a_request_that_fits_finds_as_many_of_each_type_as_it_asks_for(
    asked: tuple[Gres, ...], free: dict[str, int]
) -> None:
    if fits(asked, free):
        for name in NAMES:
            count = sum(each.count for each in asked if each.name == name)
            assert count <= sum(
                available for kind, available in free.items() if kind == name or kind.startswith(f"{name}:")
            )
        assert gpu_count(asked) <= sum(available for kind, available in free.items() if kind.startswith("gpu"))


@given(any_request.filter(bool), any_free)
def test_no_more_than_the_computed_number_of_requests_fits(asked: tuple[Gres, ...], free: dict[str, int]) -> None:
    times = max_concurrent(asked, free)
    assert fits(asked * times, free)
    assert not fits(asked * (times + 1), free)


@given(any_free)
def test_a_request_for_everything_fits_once(free: dict[str, int]) -> None:
    everything = tuple(Gres(name, count) for name, count in Counter(free).items() if count and ":" in name)
    assert fits(everything, free)
