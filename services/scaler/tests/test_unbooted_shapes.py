"""What a shape is bought for: its size and its price, and not whether it has booted before."""

from typing import Any

import pytest
from clusterra_scaler.planner.decide import decide
from clusterra_scaler.planner.estimates.provisioning_latency import ProvisioningLatency
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.registration import Registrations
from clusterra_scaler.planner.observed.state import FleetState
from fleet_examples import CATALOGUE, START, edge, group, observation, snapshot
from hypothesis import given
from hypothesis import strategies as st

SHAPES = [shape.name for shape in CATALOGUE.shapes]
SHORT = 20.0


def bought(jobs: int, limit_seconds: float, latency: ProvisioningLatency) -> dict[str, int]:
    """What is bought for jobs of 4 CPUs in an empty cluster."""
    asked: dict[str, Any] = {"cpus": 4, "memory_per_node_mib": None, "memory_per_cpu_mib": 1024}
    waiting = group(*map(str, range(1, jobs + 1)), time_limit_seconds=limit_seconds, **asked)
    view = observation(snapshot((waiting,), (), ()), edge(), name="packing")
    history = ObservationHistory(registrations=Registrations(latency))
    plan = decide(view, FleetState.initial(START), history).plan
    assert plan is not None
    return dict(plan.new)


def booted(shape: str, *seconds: float) -> ProvisioningLatency:
    latency = ProvisioningLatency()
    for each in seconds:
        latency = latency.with_registered(shape, each)
    return latency


@pytest.mark.parametrize(
    "latency",
    [ProvisioningLatency({"compute-xlarge": 0.5}), booted("compute-xlarge", 0.5), booted("compute-small", 400.0)],
    ids=["large ones boot fast, as recorded", "large ones boot fast", "small ones boot slowly"],
)
@pytest.mark.parametrize("jobs", [1, 3])
def test_short_jobs_of_four_cpus_get_machines_of_four_whatever_has_booted_before(
    latency: ProvisioningLatency, jobs: int
) -> None:
    assert bought(jobs, SHORT, latency) == {"compute-small": jobs}


def test_one_slow_boot_of_many_makes_no_shape_dear() -> None:
    latency = booted("compute-small", *[1.0] * 30, 90.0).with_registered("compute-xlarge", 0.5)

    assert bought(1, SHORT, latency) == {"compute-small": 1}


@given(
    st.sampled_from(SHAPES),
    st.lists(st.floats(0.1, 600), min_size=1, max_size=30),
    st.sampled_from([5.0, 60.0, 3600.0]),
    st.integers(1, 6),
)
def test_what_one_shape_has_taken_to_boot_changes_no_choice_between_shapes(
    shape: str, seconds: list[float], limit_seconds: float, jobs: int
) -> None:
    assert bought(jobs, limit_seconds, booted(shape, *seconds)) == {"compute-small": jobs}
