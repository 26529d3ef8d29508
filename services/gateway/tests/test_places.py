"""Places that tenants share: none is without one, whatever the others hold, and a person holds a bounded number."""

from contextlib import ExitStack

import pytest
from clusterra_gateway.http.requests.errors import TooManyRequests
from clusterra_gateway.identity.access.limits import Places
from hypothesis import given
from hypothesis import strategies as st

CAPACITY = 1000


def filled(stack: ExitStack, places: Places, tenant: str) -> int:
    """Takes places for new people of a tenant until they are refused. Returns how many it took."""
    taken = 0
    while True:
        try:
            stack.enter_context(places.taken(tenant, f"{tenant}-{taken}", most=50))
        except TooManyRequests:
            return taken
        taken += 1


def test_a_lone_tenant_has_most_places_and_each_further_one_has_some() -> None:
    places = Places(CAPACITY)
    with ExitStack() as stack:
        taken = [filled(stack, places, tenant) for tenant in ("a", "b", "c", "d")]

    assert taken[0] == CAPACITY * 3 // 4
    assert all(taken), "the third tenant had none when one could take three quarters of what is left to it"


def test_who_holds_many_gets_no_more_until_the_tenants_are_even() -> None:
    places = Places(CAPACITY)
    with ExitStack() as first, ExitStack() as second:
        filled(first, places, "a")
        filled(second, places, "b")

        with pytest.raises(TooManyRequests), places.taken("a", "a", most=50):
            pass
        first.close()

        assert filled(second, places, "b") > CAPACITY // 3


def test_heavy_ones_count_as_several() -> None:
    places = Places(CAPACITY)
    with places.taken("a", "ada", most=5, weight=4):
        with pytest.raises(TooManyRequests), places.taken("a", "ada", most=5, weight=2):
            pass
        with places.taken("a", "ada", most=5):
            pass

    with places.taken("a", "ada", most=5, weight=5):
        pass


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 5), st.booleans()), max_size=60))
def test_places_are_never_more_than_there_are(steps: list[tuple[str, int, bool]]) -> None:
    places, held = Places(20), list[tuple[ExitStack, int]]()
    for tenant, weight, leaves in steps:
        if leaves and held:
            held.pop(0)[0].close()
        stack = ExitStack()
        try:
            stack.enter_context(places.taken(tenant, tenant, most=12, weight=weight))
        except TooManyRequests:
            continue
        held.append((stack, weight))

        assert sum(each for _, each in held) < 20
