"""What a running job costs per hour."""

import pytest
from clusterra_scaler.planner.requests.job_costs import JobCosts
from fleet_examples import WITH_GPUS, binding, node, running, snapshot

NODES = (node("general-small-1", used=4), node("general-small-2", used=4), node("compute-xs-1", used=1))
HOURLY = 4 * 0.04
"""The price of a general-small in the test's catalogue."""


def test_a_job_is_charged_its_share_of_the_cpus_of_its_nodes() -> None:
    costs = JobCosts(snapshot((), (), NODES), binding())
    on_one_node = running("1", "general-small-1", cpus=1)
    on_two_nodes = running("1", "general-small-1", "general-small-2", cpus=8)
    on_unknown_node = running("1", "somewhere-else")

    assert costs.usd_per_hour(on_one_node) == pytest.approx(HOURLY / 4)
    assert costs.usd_per_hour(on_two_nodes) == pytest.approx(2 * HOURLY)
    assert costs.usd_per_hour(on_unknown_node) == 0.0


def test_a_job_is_charged_its_share_of_the_memory_if_that_is_more() -> None:
    costs = JobCosts(snapshot((), (), NODES), binding())
    half = running("1", "general-small-1").model_copy(update={"memory_mib": NODES[0].memory_mib // 2})

    assert costs.usd_per_hour(half) == pytest.approx(HOURLY / 2)


def test_a_job_is_charged_its_share_of_the_gpus_if_that_is_more() -> None:
    runs = (
        running("1", "l4-xlarge-1", gres={"l4-xlarge-1": {"gpu:l4": 1}}),
        running("2", "l4-xlarge-1", cpus=16, gres={"l4-xlarge-1": {"gpu:l4": 1}}),
        running("3", "l4-xlarge-1", cpus=8),
        running(
            "4", "l4-xlarge-1", "l4-small-1", cpus=2, gres={"l4-xlarge-1": {"gpu:l4": 2}, "l4-small-1": {"gpu": 1}}
        ),
    )
    costs = JobCosts(snapshot((), runs, (node("l4-xlarge-1"), node("l4-small-1"))), binding(WITH_GPUS))

    assert [costs.usd_per_hour(job) for job in runs] == pytest.approx([0.8, 1.6, 0.8, 1.6 + 0.8])
