"""Unregistered workers are removed once two snapshots show them overdue, and none that could have a job by then."""

import pytest
from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.queue import NodeState, PendingJobs
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.registration import SERVING_SECONDS
from clusterra_scaler.planner.observed.state import FleetState
from fleet_examples import edge, group, node, observation, running, snapshot, state, target, worker

NAME = "compute-xs-1"
LIMIT = 480.0
BOOTING = worker(NAME, "booting")
RUNNING = worker(NAME)
WAITING = (group("1"),)


class OneWorkerCluster:
    """A cluster with one worker that was started at second 0, and its state from decision to decision."""

    def __init__(self, *, before: FleetState | None = None, max_workers: int = 100) -> None:
        self.state = before or state(target("compute-xs", 1), generation=1)
        self.max_workers = max_workers
        self.observation_history = ObservationHistory.after_takeover(self.state)

    def decide_at(
        self,
        second: float,
        *workers: Worker,
        nodes: tuple[NodeState, ...] | None = (),
        pending: tuple[PendingJobs, ...] | None = (),
        decided_at: float | None = None,
    ) -> Decision:
        """Decide on a snapshot taken at this second; at the same second unless `decided_at` says otherwise."""
        report = edge(*workers, heard=second, applied=self.state.generation)
        shot = snapshot(pending, (), nodes, taken=second)
        now = second if decided_at is None else decided_at
        view = observation(shot, report, now=now, max_workers=self.max_workers)
        decision = decide(view, self.state, self.observation_history)
        self.state, self.observation_history = decision.state, decision.observation_history
        return decision

    def decide_again_at(self, second: float, taken: float, *workers: Worker) -> Decision:
        """Decide once more on the snapshot that was taken at `taken`."""
        return self.decide_at(taken, *workers, decided_at=second)


def cluster_with_overdue_worker() -> OneWorkerCluster:
    """A cluster one of whose snapshots, at 5 seconds past the limit, has shown its worker overdue."""
    cluster = OneWorkerCluster()
    for second in (0, 200, LIMIT - 1, LIMIT + 5):
        cluster.decide_at(second, BOOTING)
    return cluster


def test_a_worker_may_take_up_to_the_limit_to_register_and_one_snapshot_more() -> None:
    cluster = OneWorkerCluster()

    decisions = [cluster.decide_at(second, BOOTING) for second in (0, 200, LIMIT - 1, LIMIT + 5)]
    same_snapshot = cluster.decide_again_at(LIMIT + 9, LIMIT + 5, BOOTING)

    assert [each.changes for each in (*decisions, same_snapshot)] == [()] * 5


def test_a_worker_that_never_registers_is_removed_after_two_snapshots() -> None:
    cluster = cluster_with_overdue_worker()

    decision = cluster.decide_at(LIMIT + 10, BOOTING)

    (change,) = decision.changes
    assert (change.victims, change.replicas_after) == ((NAME,), 0)
    assert change.reason == f"{NAME} never registered within 480 s"
    (named,) = decision.state.targets
    assert (named.victims, named.unregistered) == ((), (NAME,))
    assert decision.fact.changes == decision.changes


def test_a_removed_worker_is_no_victim_once_it_is_gone() -> None:
    cluster = cluster_with_overdue_worker()
    cluster.decide_at(LIMIT + 10, BOOTING)

    gone = cluster.decide_at(LIMIT + 15)

    assert gone.changes[0].reason == f"{NAME} gone"
    assert gone.state.victims == frozenset()


def test_a_full_cluster_orders_a_replacement_once_the_overdue_worker_is_gone() -> None:
    cluster = OneWorkerCluster(max_workers=1)
    for second in (0, LIMIT + 1, LIMIT + 2):
        cluster.decide_at(second, BOOTING, pending=WAITING)
    assert cluster.state.target("compute-xs") == target("compute-xs", 0).model_copy(update={"unregistered": (NAME,)})
    leaving = BOOTING.model_copy(update={"phase": "terminating"})
    assert not cluster.decide_at(LIMIT + 3, leaving, pending=WAITING).changes

    replaced = cluster.decide_at(LIMIT + 4, pending=WAITING)
    assert replaced.state.target("compute-xs") == target("compute-xs", 1)
    assert replaced.changes[0].reason == f"1 more for pending job 1; {NAME} gone"


def test_a_cluster_below_its_limit_orders_a_replacement_before_the_overdue_worker_is_gone() -> None:
    cluster = OneWorkerCluster(max_workers=2)
    cluster.decide_at(0, BOOTING, pending=WAITING)

    ordered = cluster.decide_at(LIMIT + 1, BOOTING, pending=WAITING)
    named = cluster.decide_at(LIMIT + 2, BOOTING, pending=WAITING)

    assert ordered.changes[0].reason == "1 more for pending job 1"
    assert named.changes[0].replicas_after == 1
    assert named.changes[0].reason == f"{NAME} never registered within 480 s"


def test_incomplete_snapshots_do_not_count() -> None:
    cluster = OneWorkerCluster()
    cluster.decide_at(0, BOOTING)
    for second, lists in enumerate(({"nodes": None}, {"pending": None}), start=int(LIMIT) + 1):
        assert not cluster.decide_at(second, BOOTING, **lists).changes

    assert not cluster.decide_at(LIMIT + 10, BOOTING).changes, "the first snapshot after the limit"
    assert not cluster.decide_at(LIMIT + 11, BOOTING, nodes=None).changes
    assert cluster.decide_at(LIMIT + 12, BOOTING).changes


def test_the_limit_counts_from_the_first_snapshot_without_a_record() -> None:
    cluster = OneWorkerCluster()
    assert not cluster.decide_at(5000, BOOTING).changes
    assert not cluster.decide_at(5001, BOOTING).changes
    assert not cluster.decide_at(5000 + LIMIT, BOOTING).changes
    assert cluster.decide_at(5001 + LIMIT, BOOTING).changes


def test_a_serving_worker_gets_another_limit_and_is_removed_by_a_fresh_snapshot_only() -> None:
    cluster = OneWorkerCluster()
    for second in (0, LIMIT - 1):
        cluster.decide_at(second, BOOTING)
    serves = int(LIMIT) + 5
    for second in range(serves, serves + int(SERVING_SECONDS) + 1, 20):
        assert not cluster.decide_at(second, RUNNING).changes
    ends = serves + SERVING_SECONDS
    assert not cluster.decide_at(ends + 1, RUNNING, decided_at=ends + 17).changes, "the snapshot is too old"

    decision = cluster.decide_at(ends + 20, RUNNING)

    assert decision.state.target("compute-xs") == target("compute-xs", 0, NAME)
    assert decision.changes[0].reason == f"{NAME} served for 120 s unknown to Slurm"


def test_a_worker_that_slurm_has_forgotten_is_removed_and_replaced() -> None:
    cluster = OneWorkerCluster()
    cluster.decide_at(0, RUNNING, nodes=(node(NAME),))
    for second in range(10, 10 + int(SERVING_SECONDS) + 1, 10):
        assert not cluster.decide_at(second, RUNNING, pending=WAITING).changes

    removed = cluster.decide_at(20 + SERVING_SECONDS, RUNNING, pending=WAITING)
    replaced = cluster.decide_at(30 + SERVING_SECONDS, RUNNING, pending=WAITING)

    assert removed.state.victims | replaced.state.victims == {NAME}
    assert replaced.state.target("compute-xs") == target("compute-xs", 1, NAME)


def test_the_limit_of_a_serving_worker_counts_anew_once_slurm_answers_again() -> None:
    cluster = OneWorkerCluster()
    for second in range(0, 100, 10):
        cluster.decide_at(second, RUNNING)
    for second in range(100, 200, 10):
        cluster.decide_at(second, RUNNING, nodes=None)

    for second in range(200, 200 + int(SERVING_SECONDS) + 1, 10):
        assert not cluster.decide_at(second, RUNNING).changes
    assert cluster.decide_at(210 + SERVING_SECONDS, RUNNING).state.victims == {NAME}


def test_a_worker_that_serves_on_and_off_is_removed_while_it_does_not() -> None:
    cluster = OneWorkerCluster()
    cluster.decide_at(0, BOOTING)
    for second in range(100, int(LIMIT) + 200, 100):
        assert not cluster.decide_at(second, RUNNING).changes
        cluster.decide_at(second + 50, BOOTING)
    assert cluster.decide_at(LIMIT + 260, BOOTING).state.victims == {NAME}


def test_a_worker_that_registers_at_the_last_moment_stays() -> None:
    cluster = OneWorkerCluster()
    for second in (0, LIMIT + 1):
        cluster.decide_at(second, BOOTING)
    record = node(NAME, idle_for=None)
    assert not cluster.decide_at(LIMIT + 2, BOOTING, nodes=(record,), pending=WAITING).changes
    assert not cluster.decide_at(LIMIT + 3, RUNNING, nodes=(record,)).changes


RECORD = (node(NAME, idle_for=None),)
ALIVE = pytest.mark.parametrize("alive", [RUNNING, BOOTING], ids=["running", "booting"])


def cluster_with_named_worker() -> OneWorkerCluster:
    """A cluster whose worker has just been named for removal, and replaced."""
    cluster = OneWorkerCluster()
    for second in (0, LIMIT + 1, LIMIT + 2):
        cluster.decide_at(second, BOOTING, pending=WAITING)
    return cluster


def test_a_named_worker_has_a_replacement() -> None:
    cluster = cluster_with_named_worker()

    named = cluster.state.target("compute-xs")

    assert cluster.state.victims == {NAME}
    assert named is not None
    assert named.replicas == 1


@ALIVE
def test_a_named_worker_that_registers_is_no_victim_any_more(alive: Worker) -> None:
    cluster = cluster_with_named_worker()

    back = cluster.decide_at(LIMIT + 3, alive, nodes=RECORD, pending=WAITING)

    # The edge may have removed it before it serves: no replica counts it until the edge shows that it is kept.
    assert back.state.victims == frozenset()
    assert back.state.target("compute-xs") == target("compute-xs", 0)
    reason = f"{NAME} there after all; 1 ordered or lost and not needed any more"
    assert back.changes[0].reason == reason
    assert back.observation_history.registrations.latency.p99_seconds() == {"compute-xs": LIMIT + 3}


@ALIVE
def test_a_reinstated_worker_counts_once_the_edge_shows_that_it_is_kept(alive: Worker) -> None:
    cluster = cluster_with_named_worker()
    cluster.decide_at(LIMIT + 3, alive, nodes=RECORD, pending=WAITING)

    kept = cluster.decide_at(LIMIT + 4, alive, nodes=RECORD, pending=WAITING)
    later = cluster.decide_at(LIMIT + 5, alive, nodes=RECORD, pending=WAITING)

    assert kept.state.target("compute-xs") == target("compute-xs", 1)
    assert not later.changes


def test_a_named_worker_that_served_when_it_was_removed_is_not_counted() -> None:
    cluster = OneWorkerCluster()
    for second in (0, LIMIT + 1, LIMIT + 2):
        cluster.decide_at(second, BOOTING)

    back = cluster.decide_at(LIMIT + 3, RUNNING)
    gone = cluster.decide_at(LIMIT + 4)

    assert back.state.target("compute-xs") == target("compute-xs", 0)
    assert gone.state.target("compute-xs") == target("compute-xs", 0)
    assert not gone.state.taken_back


def test_a_worker_of_a_shape_known_to_boot_slowly_gets_more_time() -> None:
    cluster = OneWorkerCluster(
        before=state(target("compute-xs", 1), generation=1, boot_p99_seconds={"compute-xs": 400.0})
    )
    for second in (0, LIMIT + 1, LIMIT + 2, 599):
        assert not cluster.decide_at(second, BOOTING, pending=WAITING).changes

    cluster.decide_at(601, BOOTING, pending=WAITING)
    assert cluster.decide_at(602, BOOTING, pending=WAITING).state.victims == {NAME}


def test_the_provisioning_latency_is_stored_with_the_next_decision() -> None:
    cluster = OneWorkerCluster()
    cluster.decide_at(0, BOOTING)

    learned = cluster.decide_at(90, RUNNING, nodes=(node(NAME, idle_for=None),), pending=WAITING)
    more = cluster.decide_at(91, RUNNING, nodes=(node(NAME, idle_for=None),), pending=(group("1", "2", "3", cpus=2),))

    assert not learned.changes
    assert learned.state.boot_p99_seconds == {}
    assert more.changes
    assert more.state.boot_p99_seconds == {"compute-xs": 90.0}


def test_a_record_that_was_lost_and_found_does_not_count_as_provisioning() -> None:
    cluster = OneWorkerCluster()
    cluster.decide_at(5000, RUNNING)

    decision = cluster.decide_at(5010, RUNNING, nodes=(node(NAME),))

    assert decision.observation_history.registrations.latency.p99_seconds() == {}


def test_a_registered_worker_whose_slurmd_does_not_answer_is_not_overdue() -> None:
    cluster = OneWorkerCluster()
    for second in (0, LIMIT + 1, LIMIT + 2):
        assert not cluster.decide_at(second, BOOTING, nodes=(node(NAME, "DOWN", idle_for=None),)).changes
    assert not cluster.state.victims


def test_a_worker_with_a_running_job_stays() -> None:
    cluster = OneWorkerCluster()
    for second in (0, LIMIT + 1):
        cluster.decide_at(second, BOOTING)
    shot = snapshot((), (running("1", NAME),), (), taken=LIMIT + 2)
    view = observation(shot, edge(BOOTING, heard=LIMIT + 2), now=LIMIT + 2)
    assert not decide(view, cluster.state, cluster.observation_history).changes
