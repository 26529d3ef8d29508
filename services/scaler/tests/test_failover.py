"""Failover between shapes: what opens a circuit breaker, what is bought instead, and how a shape is tried again."""

from dataclasses import replace

import pytest
from clusterra_contracts.heartbeat import Stuck, StuckCause, Worker
from clusterra_contracts.queue import NodeState, PendingJobs
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.observed.breakers import LONGEST_PAUSE_SECONDS
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from fleet_examples import at, edge, group, node, observation, snapshot, state, target, worker

ONE = (group("1"),)
NO_CAPACITY = "did not start: no capacity for compute-xs since 12:00 UTC"


class OrderedCluster:
    """A cluster whose workers were ordered at second 0, and its state from decision to decision."""

    def __init__(self, before: FleetState, *, sees_machines: bool = True) -> None:
        self.state = before
        self.sees_machines = sees_machines
        self.observation_history = ObservationHistory.after_takeover(before)

    def decide_at(
        self,
        second: float,
        *workers: Worker,
        stuck: Stuck | None = None,
        pending: tuple[PendingJobs, ...] = ONE,
        nodes: tuple[NodeState, ...] = (),
    ) -> Decision:
        """Decide at this second, from a snapshot and a heartbeat of the same second."""
        reports = () if stuck is None else (stuck,)
        report = edge(
            *workers, heard=second, applied=self.state.generation, stuck=reports, sees_machines=self.sees_machines
        )
        view = observation(
            snapshot(pending, (), nodes, taken=second), replace(report, generation=int(second)), now=second
        )
        decision = decide(view, self.state, self.observation_history)
        self.state, self.observation_history = decision.state, decision.observation_history
        return decision

    @property
    def wanted(self) -> dict[str, int]:
        return {target.shape: target.replicas for target in self.state.targets if target.replicas}


def stuck_workers(count: int, cause: StuckCause = "insufficient_capacity", shape: str = "compute-xs") -> Stuck:
    return Stuck(shape=shape, cause=cause, workers=count, message="no machine")


def booting(*names: str, started: float = 0.0) -> list[Worker]:
    return [worker(name, "booting", started=started) for name in names]


def ordered(count: int = 1, shape: str = "compute-xs") -> FleetState:
    return state(target(shape, count), generation=1)


def cluster_after_outage(pending: tuple[PendingJobs, ...] = ONE) -> OrderedCluster:
    """A cluster in which compute-xs has failed at second 35, and its worker is gone."""
    cluster = OrderedCluster(ordered())
    for second in (25, 30, 35):
        cluster.decide_at(second, *booting("compute-xs-1"), stuck=stuck_workers(1), pending=pending)
    cluster.decide_at(36, pending=pending)
    return cluster


def test_a_worker_of_an_unavailable_shape_is_withdrawn_for_another_size() -> None:
    cluster = OrderedCluster(ordered())
    for second in (1, 15, 21, 30):
        assert not cluster.decide_at(second, *booting("compute-xs-1"), stuck=stuck_workers(1)).changes

    decision = cluster.decide_at(31, *booting("compute-xs-1"), stuck=stuck_workers(1))

    assert cluster.wanted == {"compute-small": 1}
    assert cluster.state.target("compute-xs") == target("compute-xs", 0).model_copy(
        update={"unregistered": ("compute-xs-1",)}
    )
    assert [change.reason for change in decision.changes] == [
        f"compute-xs-1 {NO_CAPACITY}",
        "1 more for pending job 1; no capacity for compute-xs since 12:00 UTC",
    ]
    assert not cluster.decide_at(32, *booting("compute-xs-1"), stuck=stuck_workers(1)).changes, (
        "it is withdrawn only once"
    )


def test_no_breaker_opens_if_the_next_heartbeat_reports_no_stuck_worker() -> None:
    cluster = OrderedCluster(ordered())
    for second in range(25, 95, 10):
        assert not cluster.decide_at(second, *booting("compute-xs-1"), stuck=stuck_workers(1)).changes
        assert not cluster.decide_at(second + 5, *booting("compute-xs-1")).changes
    assert not cluster.state.breakers


def test_no_breaker_opens_while_the_launches_may_still_succeed() -> None:
    cluster = OrderedCluster(ordered(9))
    for second in range(5, 60, 5):
        old = booting(*(f"compute-xs-{n}" for n in range(1, 9)), started=0)
        young = booting("compute-xs-9", started=second - 5)
        cluster.decide_at(second, *old, *young, stuck=stuck_workers(1), pending=(group(*"123456789", cpus=2),))
    assert not cluster.state.breakers


def test_the_usual_provisioning_latency_counts_if_the_edge_sees_no_machines() -> None:
    known = ordered().model_copy(update={"boot_p99_seconds": {"compute-xs": 100.0}})
    cluster = OrderedCluster(known, sees_machines=False)
    for second in (20, 60, 120, 149):
        assert not cluster.decide_at(second, *booting("compute-xs-1"), stuck=stuck_workers(1)).changes

    cluster.decide_at(151, *booting("compute-xs-1"), stuck=stuck_workers(1))
    cluster.decide_at(161, *booting("compute-xs-1"), stuck=stuck_workers(1))

    assert cluster.wanted == {"compute-small": 1}


def test_only_as_many_workers_as_are_stuck_are_withdrawn() -> None:
    cluster = OrderedCluster(ordered(3))
    workers = booting("compute-xs-1", "compute-xs-2", "compute-xs-3")
    three_jobs = (group("1", "2", "3", cpus=2),)

    for second in (25, 36):
        cluster.decide_at(second, *workers, stuck=stuck_workers(1), pending=three_jobs)

    assert cluster.wanted == {"compute-xs": 2, "compute-small": 1}


def test_an_exhausted_quota_cancels_orders_and_buys_another_shape() -> None:
    cluster = OrderedCluster(ordered(2))
    for second in (25, 36):
        decision = cluster.decide_at(second, stuck=stuck_workers(0, cause="quota"), pending=(group("1", "2", cpus=2),))

    assert cluster.wanted == {"compute-small": 1}
    assert decision.changes[0].reason == (
        "2 ordered or lost and not needed any more; a quota leaves no room for compute-xs since 12:00 UTC"
    )


def test_causes_that_affect_every_shape_open_no_breaker() -> None:
    for cause in ("image_pull", "other"):
        cluster = OrderedCluster(ordered())
        for second in (25, 36, 60):
            assert not cluster.decide_at(second, *booting("compute-xs-1"), stuck=stuck_workers(1, cause=cause)).changes


def test_all_nodes_of_a_job_are_bought_in_another_shape_together() -> None:
    cluster = OrderedCluster(ordered(3))
    workers = booting("compute-xs-1", "compute-xs-2", "compute-xs-3")
    gang = (group("1", cpus=6, nodes=3, memory_per_node_mib=1024, exclusive=True),)

    for second in (25, 36):
        cluster.decide_at(second, *workers, stuck=stuck_workers(3), pending=gang)

    assert cluster.wanted == {"compute-small": 3}


FEW, MANY = ((group(*map(str, range(1, count)), cpus=2),) for count in (10, 20))
FAILED_TRIALS = pytest.mark.parametrize("failed", [0, 1, 6], ids=["first", "second", "after the longest pause"])


def fail_trial(cluster: OrderedCluster, due: float) -> float:
    """Try a worker at this second, which does not start. Returns the second at which the trial has failed."""
    trial = booting("compute-xs-1", started=due)
    cluster.decide_at(due, pending=MANY)
    for second in (due + 21, due + 30, due + 31):
        cluster.decide_at(second, *trial, stuck=stuck_workers(1), pending=MANY)
    return due + 31


def cluster_after_trials(failed: int) -> tuple[OrderedCluster, float]:
    """A cluster after an outage and so many failed trials, and the second at which the next one is due."""
    cluster, pause = cluster_after_outage(), 60.0
    due = 35 + pause
    for _ in range(failed):
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        due = fail_trial(cluster, due) + pause
    cluster.decide_at(due - 1, pending=FEW)
    return cluster, due


@pytest.mark.parametrize("failed", range(8))
def test_the_pause_doubles_after_each_failed_trial_up_to_the_longest(failed: int) -> None:
    cluster, due = cluster_after_trials(failed)

    (breaker,) = cluster.state.breakers

    assert (breaker.opened_at, breaker.probe_at) == (at(35), at(due))


@FAILED_TRIALS
def test_nothing_is_tried_after_the_pause_while_no_further_worker_is_needed(failed: int) -> None:
    cluster, due = cluster_after_trials(failed)

    cluster.decide_at(due, pending=FEW)

    assert "compute-xs" not in cluster.wanted


@FAILED_TRIALS
def test_one_worker_is_tried_after_the_pause(failed: int) -> None:
    cluster, due = cluster_after_trials(failed)

    cluster.decide_at(due, pending=FEW)
    cluster.decide_at(due, pending=MANY)

    assert cluster.wanted["compute-xs"] == 1


@FAILED_TRIALS
def test_a_trial_is_kept_while_its_launch_may_still_succeed(failed: int) -> None:
    cluster, due = cluster_after_trials(failed)
    cluster.decide_at(due, pending=MANY)

    for second in (due + 21, due + 30):
        cluster.decide_at(second, *booting("compute-xs-1", started=due), stuck=stuck_workers(1), pending=MANY)

    assert cluster.wanted["compute-xs"] == 1


@FAILED_TRIALS
def test_a_failed_trial_is_withdrawn(failed: int) -> None:
    cluster, due = cluster_after_trials(failed)

    fail_trial(cluster, due)

    assert "compute-xs" not in cluster.wanted


def test_a_shape_is_not_tried_without_a_job_that_needs_it() -> None:
    cluster = cluster_after_outage()
    cluster.decide_at(100, *booting("compute-small-1", started=40))
    cluster.decide_at(200, pending=(group("2", memory_per_node_mib=9 * 1024),))
    assert "compute-xs" not in cluster.wanted


FOUR_JOBS = group("1", "2", "3", "4", cpus=2)
AFTER_REGISTRATION = (*booting("compute-small-1", "compute-small-2", started=99), worker("compute-xs-1", started=99))
REGISTERED = node("compute-xs-1", idle_for=None).model_copy(update={"registered_at": at(130)})


def cluster_on_trial() -> OrderedCluster:
    """A cluster that tries compute-xs again at second 98, beside a second replacement."""
    cluster = cluster_after_outage()
    cluster.decide_at(97, *booting("compute-small-1", started=37))
    cluster.decide_at(98, *booting("compute-small-1", started=37), pending=(FOUR_JOBS,))
    return cluster


def test_nothing_is_tried_while_coming_workers_have_the_capacity() -> None:
    cluster = cluster_after_outage()

    cluster.decide_at(97, *booting("compute-small-1", started=37))

    assert cluster.wanted == {"compute-small": 1}


def test_one_of_the_workers_that_are_needed_is_the_trial() -> None:
    cluster = cluster_on_trial()

    assert cluster.wanted == {"compute-small": 2, "compute-xs": 1}


def test_a_registration_closes_the_breaker_and_the_replacements_stay() -> None:
    cluster = cluster_on_trial()

    decision = cluster.decide_at(131, *AFTER_REGISTRATION, nodes=(REGISTERED,), pending=(FOUR_JOBS,))

    assert cluster.state.breakers[0].closed_at == at(131)
    assert not decision.changes, "replacements are not bought again"


def test_a_shape_is_bought_again_once_its_breaker_is_closed() -> None:
    cluster = cluster_on_trial()
    cluster.decide_at(131, *AFTER_REGISTRATION, nodes=(REGISTERED,), pending=(FOUR_JOBS,))
    more = (FOUR_JOBS, group("5", "6", cpus=2))

    cluster.decide_at(140, *AFTER_REGISTRATION, nodes=(REGISTERED,), pending=more)

    assert cluster.wanted == {"compute-small": 2, "compute-xs": 2}


EITHER = (group("1", features="compute-xs|compute-small"),)
LAST_ORDERED = booting("compute-small-1", started=37)


def cluster_with_one_shape_left() -> OrderedCluster:
    """A cluster in which compute-xs has failed for a job that fits one other shape."""
    cluster = OrderedCluster(ordered())
    for second in (25, 36):
        cluster.decide_at(second, *booting("compute-xs-1"), stuck=stuck_workers(1), pending=EITHER)
    return cluster


def exhaust(cluster: OrderedCluster) -> Decision:
    """Let the other shape fail too, and return the decision at which it has."""
    stuck = stuck_workers(1, shape="compute-small")
    cluster.decide_at(58, *LAST_ORDERED, stuck=stuck, pending=EITHER)
    return cluster.decide_at(69, *LAST_ORDERED, stuck=stuck, pending=EITHER)


def test_a_job_gets_the_only_other_shape_that_it_admits() -> None:
    cluster = cluster_with_one_shape_left()

    assert cluster.wanted == {"compute-small": 1}


def test_the_order_stays_if_every_fitting_shape_is_unavailable() -> None:
    cluster = cluster_with_one_shape_left()

    decision = exhaust(cluster)

    assert len(cluster.state.breakers) == 2
    assert not decision.changes
    assert decision.plan is not None
    assert [each.reason for each in decision.plan.unmet] == [
        "no capacity for compute-small since 12:01 UTC, no capacity for compute-xs since 12:00 UTC"
    ]


def test_a_shape_is_tried_while_the_order_of_another_unavailable_one_stays() -> None:
    cluster = cluster_with_one_shape_left()
    exhaust(cluster)

    cluster.decide_at(97, *LAST_ORDERED, stuck=stuck_workers(1, shape="compute-small"), pending=EITHER)

    assert cluster.wanted == {"compute-small": 1, "compute-xs": 1}


def test_new_jobs_order_only_one_worker_while_every_shape_is_unavailable() -> None:
    cluster = cluster_after_outage((group("1", features="compute-xs"),))
    assert cluster.wanted == {"compute-xs": 1}
    jobs = (group("1", "2", "3", features="compute-xs", cpus=2),)

    cluster.decide_at(40, pending=jobs)
    cluster.decide_at(41, *booting("compute-xs-2", started=40), pending=jobs)

    assert cluster.wanted == {"compute-xs": 1}


def test_two_workers_that_never_register_open_the_breaker_and_one_does_not() -> None:
    def after_no_registration(second: float, count: int) -> OrderedCluster:
        cluster = OrderedCluster(ordered(count))
        names = [f"compute-xs-{n}" for n in range(count)]
        jobs = (group(*map(str, range(1, count + 1)), cpus=2),)
        cluster.decide_at(1, *booting(*names), pending=jobs)
        cluster.decide_at(second, *booting(*names), pending=jobs)
        return cluster

    assert after_no_registration(481, 1).wanted == {"compute-xs": 2}
    assert after_no_registration(481, 2).wanted == {"compute-xs": 2, "compute-small": 1}
    assert (
        after_no_registration(481, 2).state.breakers[0].description
        == "workers of compute-xs have never registered since 12:08 UTC"
    )
    assert not after_no_registration(479, 2).state.breakers


def test_a_takeover_keeps_the_pause() -> None:
    cluster = cluster_after_outage()
    stored = cluster.state.under_new_lease(2, at(40)).model_dump_json()

    successor = OrderedCluster(FleetState.model_validate_json(stored))
    successor.decide_at(41, pending=(group("1", "2", "3", cpus=2),))

    assert successor.state.breakers == cluster.state.breakers
    assert "compute-xs" not in successor.wanted


def test_a_withdrawn_worker_that_registers_is_reinstated() -> None:
    cluster = OrderedCluster(ordered())
    for second in (25, 36):
        cluster.decide_at(second, *booting("compute-xs-1"), stuck=stuck_workers(1))
    registered = node("compute-xs-1", idle_for=None).model_copy(update={"registered_at": at(40)})

    cluster.decide_at(41, worker("compute-xs-1"), nodes=(registered,))

    # The edge may have removed it before it served: it counts once the edge has applied that it is kept.
    assert cluster.wanted == {}
    assert cluster.state.victims == frozenset()

    cluster.decide_at(42, worker("compute-xs-1"), nodes=(registered,))

    assert cluster.wanted == {"compute-xs": 1}


def test_an_incomplete_snapshot_opens_no_breaker_and_withdraws_nothing() -> None:
    cluster = OrderedCluster(ordered())
    cluster.decide_at(25, *booting("compute-xs-1"), stuck=stuck_workers(1))
    report = edge(*booting("compute-xs-1"), heard=36, applied=1, sees_machines=True)
    incomplete = (snapshot(None, taken=36), snapshot(ONE, None, taken=36), snapshot(ONE, (), None, taken=36))

    for shot in incomplete:
        decision = decide(observation(shot, report, now=36), cluster.state, cluster.observation_history)

        assert not decision.changes
        assert not decision.state.breakers
