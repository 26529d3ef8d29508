"""Workers that Slurm drains as they register: when they make a failure of their shape, and what follows."""

import pytest
from clusterra_contracts.queue import NodeState, PendingJobs
from fleet_examples import at, group, node, worker
from test_failover import OrderedCluster, ordered

LOW = "Low RealMemory (reported:1000 < 100.00% of configured:2000)"
DESCRIPTION = f"Slurm drains workers of compute-xs as they register ({LOW}) since 12:01 UTC"
THIS_SHAPE = (group("1", "2", "3", cpus=2, features="compute-xs"),)


def drained(name: str, reason: str = LOW) -> NodeState:
    return node(name, "IDLE", "DRAIN", "INVALID_REG", reason=reason, idle_for=None)


def after_drains(*second_each: int, pending: tuple[PendingJobs, ...] = (group("1"),)) -> OrderedCluster:
    """A cluster whose workers were drained at these seconds, one after the other, each removed at once."""
    cluster = OrderedCluster(ordered())
    for number, second in enumerate(second_each):
        name = f"compute-xs-{number}"
        cluster.decide_at(second, worker(name, started=second - 5), nodes=(drained(name),), pending=pending)
        cluster.decide_at(second + 1, pending=pending)
    return cluster


def test_one_drained_worker_is_replaced() -> None:
    cluster = after_drains(60)

    assert (cluster.wanted, cluster.state.breakers) == ({"compute-xs": 1}, ())


def test_two_in_a_row_are_a_failure_of_their_shape() -> None:
    cluster = after_drains(60, 100)

    assert [breaker.description for breaker in cluster.state.breakers] == [DESCRIPTION]
    assert cluster.wanted == {"compute-small": 1}


@pytest.mark.parametrize("reason", ["Kill task failed", "Prolog error", "disk is broken"])
def test_a_drain_for_another_reason_is_no_failure_of_the_shape(reason: str) -> None:
    cluster = OrderedCluster(ordered(3))
    names = [f"compute-xs-{number}" for number in range(3)]

    cluster.decide_at(60, *map(worker, names), nodes=tuple(drained(name, reason) for name in names))

    assert not cluster.state.breakers


def test_a_worker_that_had_registered_well_is_none_of_them() -> None:
    cluster = OrderedCluster(ordered(2))
    names = ("compute-xs-0", "compute-xs-1")
    cluster.decide_at(60, *map(worker, names), nodes=tuple(map(node, names)))

    cluster.decide_at(70, *map(worker, names), nodes=tuple(drained(name, "gres/gpu count too low") for name in names))

    assert not cluster.state.breakers


def test_a_worker_that_registers_well_between_them_begins_a_new_row() -> None:
    cluster = after_drains(60)
    cluster.decide_at(80, worker("compute-xs-8", started=70), nodes=(node("compute-xs-8"),))

    cluster.decide_at(100, worker("compute-xs-9", started=90), nodes=(drained("compute-xs-9"),))

    assert not cluster.state.breakers


def test_a_drained_worker_does_not_close_the_breaker_and_doubles_the_pause() -> None:
    cluster = after_drains(60, 100)
    cluster.decide_at(161, pending=THIS_SHAPE)

    cluster.decide_at(180, worker("compute-xs-9", started=165), nodes=(drained("compute-xs-9"),), pending=THIS_SHAPE)

    (breaker,) = cluster.state.breakers
    assert (breaker.failures, breaker.closed_at, breaker.probe_at) == (2, None, at(180 + 120))


def test_nothing_is_ordered_in_a_pause_for_jobs_that_fit_no_other_shape() -> None:
    cluster = after_drains(60, 100, pending=THIS_SHAPE)

    decision = cluster.decide_at(159, pending=THIS_SHAPE)

    assert cluster.wanted == {}
    assert decision.plan is not None
    assert [(each.count, each.reason) for each in decision.plan.unmet] == [(3, DESCRIPTION)]


def test_one_worker_is_ordered_for_them_after_the_pause() -> None:
    cluster = after_drains(60, 100, pending=THIS_SHAPE)

    cluster.decide_at(160, pending=THIS_SHAPE)

    assert cluster.wanted == {"compute-xs": 1}
