import pytest
from clusterra_scaler.planner.requests.job_costs import JobCosts
from clusterra_scaler.usage import usage_of
from fleet_examples import NOW, at, binding, node, running, snapshot

NODES = (node("general-small-1", used=4), node("general-small-2", used=4), node("compute-xs-1", used=1))
HOURLY = 4 * 0.04
"""Of a general-small in the test's catalogue."""


def test_a_job_costs_its_share_of_its_nodes_by_cpu() -> None:
    shot = snapshot((), (), NODES)
    assert JobCosts(shot, binding()).usd_per_hour(running("1", "general-small-1", cpus=1)) == pytest.approx(HOURLY / 4)
    both = running("1", "general-small-1", "general-small-2", cpus=8)
    assert JobCosts(shot, binding()).usd_per_hour(both) == pytest.approx(2 * HOURLY)
    assert JobCosts(shot, binding()).usd_per_hour(running("1", "somewhere-else")) == 0.0


def test_usage_of_one_user_and_of_all() -> None:
    ada = running("1", "general-small-1", cpus=4, uid=1, since=NOW - 1800)
    bob = running("2", "general-small-2", cpus=2, uid=2, since=NOW - 3600)
    one = snapshot((), (ada, bob), NODES, taken=NOW - 3)
    other = snapshot((), (running("3", "compute-xs-1", uid=1, since=NOW),), NODES, taken=NOW - 9)
    clusters = [(one, binding()), (other, binding())]
    everybody = usage_of(clusters, None, at(NOW))
    assert everybody.running_jobs == 3
    assert everybody.burn_rate_usd_per_hour == pytest.approx(HOURLY + HOURLY / 2 + 0.04)
    assert everybody.pending_bill_usd == pytest.approx(HOURLY / 2 + HOURLY / 2)
    assert everybody.as_of == at(NOW - 9)
    assert usage_of(clusters, 2, at(NOW)).pending_bill_usd == pytest.approx(HOURLY / 2)


def test_no_cluster_costs_nothing() -> None:
    assert usage_of([], None, at(NOW)).model_dump() == {
        "burn_rate_usd_per_hour": 0.0,
        "pending_bill_usd": 0.0,
        "running_jobs": 0,
        "as_of": None,
    }
