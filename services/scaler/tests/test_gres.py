"""What fits beside what, by generic resources."""

from collections import Counter

import pytest
from clusterra_scaler.planner.requests.gres import Gres, fits, gpus, of_worker, side_by_side, typed, without
from hypothesis import given
from hypothesis import strategies as st

NAMES = ("gpu:l4", "gpu:h100", "gpu", "shard")
has = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 8))
asked = st.lists(st.builds(Gres, st.sampled_from(NAMES), st.integers(1, 8)), max_size=3).map(tuple)


def ask(*items: str) -> tuple[Gres, ...]:
    return tuple(Gres(name, int(count)) for name, _, count in (item.partition("=") for item in items))


@pytest.mark.parametrize(
    ("asked", "free", "times"),
    [
        (ask("gpu=1"), {"gpu:l4": 3}, 3),
        (ask("gpu=2"), {"gpu:l4": 3}, 1),
        (ask("gpu=2"), {"gpu:l4": 3, "gpu:h100": 1}, 2),
        (ask("gpu=1"), {}, 0),
        (ask("gpu:l4=1"), {"gpu:l4": 3, "gpu:h100": 1}, 3),
        (ask("gpu:l4=1"), {"gpu:h100": 8}, 0),
        (ask("gpu:l4=1"), {"gpu": 8}, 0),
        (ask("gpu=1", "gpu:l4=1"), {"gpu:l4": 1, "gpu:h100": 1}, 1),
        (ask("gpu=1", "gpu:l4=1"), {"gpu:l4": 1}, 0),
        (ask("gpu=1", "gpu:l4=1"), {"gpu:l4": 4, "gpu:h100": 2, "gpu": 2}, 4),
        (ask("gpu=1", "shard=2"), {"gpu:l4": 8, "shard": 5}, 2),
    ],
)
def test_how_many_have_room(asked: tuple[Gres, ...], free: dict[str, int], times: int) -> None:
    assert side_by_side(asked, free) == times


def test_what_a_worker_has() -> None:
    assert of_worker("gpu:l4:4") == {"gpu:l4": 4}
    assert of_worker("") == {}


def test_types_that_slurm_has_forgotten_are_those_of_the_shape() -> None:
    assert typed({"gpu": 4}, of_worker("gpu:l4:4")) == {"gpu:l4": 4}
    assert typed({"gpu": 3}, of_worker("gpu:l4:4")) == {"gpu": 3}
    assert typed({"gpu:h100": 4}, of_worker("gpu:l4:4")) == {"gpu:h100": 4}
    assert typed({}, of_worker("gpu:l4:4")) == {}


@given(asked, has)
def test_what_is_taken_is_gone_and_nothing_else(asked: tuple[Gres, ...], free: dict[str, int]) -> None:
    before = dict(free)
    left = without(asked, free)
    assert free == before
    assert left.keys() == free.keys()
    assert all(0 <= left[name] <= free[name] for name in free)
    taken = sum(free.values()) - sum(left.values())
    wanted = sum(each.count for each in asked)
    assert taken <= wanted
    assert fits(asked, free) == (taken == wanted)


@given(asked, has)
def test_who_fits_finds_as_many_of_each_type_as_asked(asked: tuple[Gres, ...], free: dict[str, int]) -> None:
    if fits(asked, free):
        for name in NAMES:
            count = sum(each.count for each in asked if each.name == name)
            assert count <= sum(there for kind, there in free.items() if kind == name or kind.startswith(f"{name}:"))
        assert gpus(asked) <= sum(there for kind, there in free.items() if kind.startswith("gpu"))


@given(asked.filter(bool), has)
def test_so_many_have_room_and_no_more(asked: tuple[Gres, ...], free: dict[str, int]) -> None:
    times = side_by_side(asked, free)
    assert fits(asked * times, free)
    assert not fits(asked * (times + 1), free)


@given(has)
def test_all_of_it_fits_once(free: dict[str, int]) -> None:
    everything = tuple(Gres(name, count) for name, count in Counter(free).items() if count and ":" in name)
    assert fits(everything, free)
