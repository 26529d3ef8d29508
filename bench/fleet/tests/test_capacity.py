"""Unit costs are the differences between runs, and an installation is their sum again."""

from typing import Any

import pytest
from fleet.capacity import SERVICES, Units, replicas, usd_per_month
from hypothesis import given
from hypothesis import strategies as st


def run(clusters: int, every: float, cores: float, writes: float) -> dict[str, Any]:
    """A run whose services all use as much."""
    alone = {
        "cpu_percent": dict.fromkeys(SERVICES, 100 * cores),
        "peak_mib": dict.fromkeys(SERVICES, 100),
        "bus_per_second": {"in_msgs": 10 * cores, "in_bytes": 1000 * cores},
        "store_per_second": {"UpdateItem": writes, "write_units": 2 * writes, "GetItem": writes},
    }
    return {"alone": alone, "given": {"clusters": clusters, "every": every}}


@given(st.floats(0, 1), st.floats(0.001, 0.01), st.floats(0.001, 0.1))
def test_an_installation_as_measured_is_found_again(fixed: float, cluster: float, change: float) -> None:
    units = Units.of(
        run(5, 1e5, fixed + 5 * cluster, 0.0),
        run(50, 1e5, fixed + 50 * cluster, 0.0),
        run(20, 5.0, fixed + 20 * cluster + 4 * change, 10.0),
    )

    again = units.installation(20, 12.0)

    assert again.cores["proxy"] == pytest.approx(fixed + 20 * cluster + 4 * change, abs=1e-6)
    assert again.writes == pytest.approx(20.0)
    assert again.reads == pytest.approx(10.0)


def test_runs_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(ValueError, match="FEW"):
        Units.of(run(50, 5, 1, 0), run(50, 5, 1, 0), run(20, 5, 1, 0))


def test_two_replicas_at_least_and_the_price_of_their_cpus() -> None:
    rates = Units.of(run(1, 1e5, 0, 0), run(2, 1e5, 0, 0), run(2, 1, 0, 0)).installation(100, 1)

    assert [replicas(cores) for cores in (0.0, 1.2, 1.3)] == [2, 2, 3]
    assert usd_per_month(rates) == pytest.approx({"cpu": 8 * 0.0408 * 730, "dynamodb": 0.0})
