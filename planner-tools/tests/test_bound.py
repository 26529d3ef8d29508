"""The fluid bound against a search over the vertices of the linear program."""

from itertools import combinations

import pytest
from clusterra_planner_tools.simulate.bound import corners, usd_per_second
from clusterra_scaler.planner.packing.items import Offering
from hypothesis import assume, given
from hypothesis import strategies as st

offerings = st.lists(
    st.builds(
        Offering,
        shape=st.just("shape"),
        cpus=st.integers(1, 64),
        memory_gib=st.integers(1, 512).map(float),
        usd_per_second=st.floats(0.01, 10.0),
        boot_seconds=st.just(60.0),
    ),
    min_size=1,
    max_size=5,
)


def cheapest(cpus: float, memory_gib: float, shapes: list[Offering]) -> float:
    """The optimum, which is at a vertex: one shape that holds the demand, or two that hold it exactly."""
    costs = [each.usd_per_second * max(cpus / each.cpus, memory_gib / each.memory_gib) for each in shapes]
    for one, other in combinations(shapes, 2):
        determinant = one.cpus * other.memory_gib - other.cpus * one.memory_gib
        if abs(determinant) > 1e-9:
            ones = (cpus * other.memory_gib - other.cpus * memory_gib) / determinant
            others = (one.cpus * memory_gib - cpus * one.memory_gib) / determinant
            if ones >= 0 and others >= 0:
                costs.append(ones * one.usd_per_second + others * other.usd_per_second)
    return min(costs)


@given(offerings, st.integers(0, 1000), st.floats(0.0, 5000.0))
def test_the_bound_is_the_optimum_of_the_linear_program(shapes: list[Offering], cpus: int, memory_gib: float) -> None:
    assume(cpus + memory_gib > 0)
    found = usd_per_second(cpus, memory_gib, corners(shapes))
    assert found == pytest.approx(cheapest(cpus, memory_gib, shapes), rel=1e-6)
