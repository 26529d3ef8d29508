"""Jobs that Slurm does not start on idle workers: when they are held back, how they are tried again, and who is not."""

import pytest
from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.node_extra import closed
from clusterra_contracts.queue import NodeState, PendingJobs, RunningJob
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.observed.breakers import LONGEST_PAUSE_SECONDS
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.request_breakers import LONGEST_TRIAL_SECONDS
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.observed.unstarted_jobs import DEPTH, LOOK_SECONDS
from fleet_examples import at, edge, group, node, observation, running, snapshot, state, target, worker

LOOK = int(LOOK_SECONDS)
EVERY = 10
"""Seconds between two snapshots. Each is valid for 30 s."""
ONE = (group("5", cpus=2, reason="Constraints"),)
MANY = (group("5", "6", "7", cpus=2, reason="Constraints"),)
IDLE = (node("compute-xs-1"),)
HELD_BACK = (
    "Slurm did not start it on idle workers that should fit it, since 12:02 UTC; workers for one such job are tried"
)


class QueueOfSlurm:
    """A cluster from decision to decision, by snapshots and heartbeats of the same second."""

    def __init__(self, before: FleetState | None = None, policy: str = "packing") -> None:
        self.state = before if before is not None else state(target("compute-xs", 1), generation=1)
        self.policy = policy
        self.history = ObservationHistory.after_takeover(self.state)
        self.second = 0

    def decide_at(
        self,
        second: int,
        pending: tuple[PendingJobs, ...],
        nodes: tuple[NodeState, ...] = IDLE,
        runs: tuple[RunningJob, ...] = (),
        workers: tuple[Worker, ...] | None = None,
    ) -> Decision:
        self.second = second
        there = workers if workers is not None else tuple(worker(each.name) for each in nodes)
        view = observation(
            snapshot(pending, runs, nodes, taken=second),
            edge(*there, heard=second, applied=self.state.generation),
            now=second,
            name=self.policy,
            max_workers=20,
            idle_seconds=600,
        )
        decision = decide(view, self.state, self.history)
        self.state, self.history = decision.state, decision.observation_history
        return decision

    def watch(
        self,
        seconds: int,
        pending: tuple[PendingJobs, ...],
        nodes: tuple[NodeState, ...] = IDLE,
        runs: tuple[RunningJob, ...] = (),
    ) -> Decision:
        """Decide every few seconds for so long."""
        decision = self.decide_at(self.second, pending, nodes, runs)
        for second in range(self.second + EVERY, self.second + seconds + 1, EVERY):
            decision = self.decide_at(second, pending, nodes, runs)
        return decision

    @property
    def wanted(self) -> dict[str, int]:
        return {each.shape: each.replicas for each in self.state.targets if each.replicas}


def reasons(decision: Decision) -> list[tuple[int, str]]:
    """How many jobs get no worker, and why."""
    assert decision.plan is not None
    return [(each.count, each.reason) for each in decision.plan.unmet]


def needed(decision: Decision) -> set[str]:
    assert decision.plan is not None
    return set(decision.plan.needed)


def held_back(pending: tuple[PendingJobs, ...] = ONE, policy: str = "packing") -> QueueOfSlurm:
    """A cluster whose jobs have not started on an idle worker, which is gone."""
    cluster = QueueOfSlurm(policy=policy)
    cluster.watch(LOOK, pending)
    cluster.decide_at(LOOK + EVERY, pending, nodes=())
    return cluster


def test_a_job_that_an_idle_worker_should_fit_is_held_back_after_two_cycles_of_slurm(policy: str) -> None:
    cluster = QueueOfSlurm(policy=policy)

    before = cluster.watch(LOOK - EVERY, ONE)
    after = cluster.decide_at(LOOK, ONE)

    assert (needed(before), reasons(before)) == ({"compute-xs-1"}, [])
    assert (needed(after), reasons(after)) == (set(), [(1, f"{HELD_BACK} at 12:03 UTC")])


def test_no_worker_is_bought_for_jobs_that_are_held_back(policy: str) -> None:
    cluster = held_back(MANY, policy)

    assert cluster.wanted == {}


def test_a_job_is_not_held_back_by_snapshots_with_a_gap_between_them() -> None:
    cluster = QueueOfSlurm()
    cluster.watch(LOOK - EVERY, ONE)

    cluster.decide_at(LOOK + 40, ONE)

    assert not cluster.state.request_breakers


def test_a_snapshot_that_is_looked_at_twice_counts_once() -> None:
    cluster = QueueOfSlurm()
    cluster.watch(LOOK, ONE)

    cluster.decide_at(LOOK, ONE)

    assert cluster.state.request_breakers[0].failures == 1


CLOSED = node("compute-xs-1").model_copy(update={"extra": closed(["other"])})


@pytest.mark.parametrize(
    ("pending", "nodes"),
    [
        (ONE, (node("compute-xs-1", used=1),)),
        (ONE, (node("compute-xs-1", "IDLE", "DRAIN", reason="clusterra: idle"),)),
        (ONE, (node("compute-xs-1", "IDLE", "DRAIN", reason="disk is broken"),)),
        (ONE, (node("compute-xs-1", "IDLE", "RESERVED"),)),
        (ONE, (node("compute-xs-1", "IDLE", "NOT_RESPONDING"),)),
        ((group("5", cpus=4),), IDLE),
        ((group("5", features="memory"),), IDLE),
        ((group("5", excluded_nodes=("compute-xs-1",)),), IDLE),
        ((group("5", nodes=2, cpus=2),), IDLE),
        ((group("5", cpus=2, extra="open=1|short=1"),), (CLOSED,)),
        ((group("5", cpus=2, dependent=True),), IDLE),
        ((group("5", cpus=2, begins_at=at(9000)),), IDLE),
        ((group("5", cpus=2, reason="AssocGrpCpuLimit"),), IDLE),
        ((group("5", cpus=2, held=True),), IDLE),
    ],
)
def test_slurm_may_have_a_good_reason(pending: tuple[PendingJobs, ...], nodes: tuple[NodeState, ...]) -> None:
    cluster = QueueOfSlurm()

    cluster.watch(3 * LOOK, pending, nodes)

    assert not cluster.state.request_breakers


def test_a_worker_that_has_just_registered_is_given_time() -> None:
    cluster = QueueOfSlurm()
    cluster.watch(2 * LOOK, ONE, nodes=())

    cluster.second += EVERY
    cluster.watch(LOOK - EVERY, ONE)

    assert not cluster.state.request_breakers


AHEAD = group("4", cpus=8, nodes=4, exclusive=True, memory_per_node_mib=100, uid=20002)


def test_idle_workers_that_wait_for_a_larger_job_ahead_prove_nothing() -> None:
    cluster = QueueOfSlurm()

    cluster.watch(3 * LOOK, (AHEAD, *ONE))

    assert not cluster.state.request_breakers


def test_a_job_deep_in_the_queue_is_given_more_time() -> None:
    many = group(*map(str, range(100, 100 + DEPTH)), cpus=8, uid=20002)
    cluster = QueueOfSlurm()

    cluster.watch(3 * LOOK, (many, *ONE))

    assert not cluster.state.request_breakers


def test_only_one_job_is_tried_after_the_pause(policy: str) -> None:
    cluster = held_back(MANY, policy)

    decision = cluster.decide_at(LOOK + 60, MANY, nodes=())

    assert sum(cluster.wanted.values()) == 1
    assert reasons(decision) == [(2, f"{HELD_BACK} after those of other such jobs")]


def test_the_pause_doubles_after_a_trial_that_starts_nothing() -> None:
    cluster = held_back()
    cluster.decide_at(LOOK + 60, ONE, nodes=())
    cluster.second += EVERY

    decision = cluster.watch(LOOK, ONE)

    (breaker,) = cluster.state.request_breakers
    assert (breaker.failures, breaker.opened_at) == (2, at(LOOK))
    assert (breaker.probe_at - breaker.failed_at).total_seconds() == 120
    assert "did not start it 2 times" in reasons(decision)[0][1]


def test_requests_are_tried_one_after_the_other() -> None:
    others = tuple(group(str(20 + n), cpus=2, uid=20002 + n) for n in range(3))
    nodes = tuple(node(f"compute-xs-{n}") for n in range(1, 4))
    cluster = QueueOfSlurm(state(target("compute-xs", 3), generation=1))
    cluster.watch(LOOK, others, nodes)

    cluster.decide_at(LOOK + 300, others, nodes=())
    cluster.decide_at(LOOK + 301, others, nodes=())

    assert len(cluster.state.request_breakers) == 3
    assert sum(cluster.wanted.values()) == 1


def test_a_trial_that_gets_no_worker_makes_room_for_the_next() -> None:
    cluster = held_back()
    cluster.decide_at(LOOK + 60, ONE, nodes=())

    cluster.decide_at(LOOK + 60 + int(LONGEST_TRIAL_SECONDS), ONE, nodes=())

    (breaker,) = cluster.state.request_breakers
    assert (breaker.failures, breaker.tried_at, breaker.failed_at) == (1, None, at(cluster.second))


LATER = (group("5", "9", cpus=2, reason="Constraints"),)


def test_a_later_job_with_the_same_request_is_tried_at_once() -> None:
    cluster = held_back()

    cluster.decide_at(LOOK + 20, LATER, nodes=())

    assert sum(cluster.wanted.values()) == 1


def test_after_the_start_of_a_later_job_only_the_earlier_one_is_held_back() -> None:
    cluster = held_back()
    cluster.decide_at(LOOK + 20, LATER, nodes=())
    busy, runs = (node("compute-xs-2", used=2),), (running("9", "compute-xs-2", cpus=2, since=LOOK + 25),)
    cluster.decide_at(LOOK + 30, ONE, busy, runs)

    decision = cluster.decide_at(LOOK + 31, (group("5", "10", "11", cpus=2),), busy, runs)

    assert [count for count, _ in reasons(decision)] == [1]


def test_after_its_start_all_of_its_like_are_demand_again() -> None:
    cluster = held_back(MANY)
    busy, runs = (node("compute-xs-2", used=2),), (running("6", "compute-xs-2", cpus=2, since=LOOK + 15),)

    decision = cluster.decide_at(LOOK + 20, (group("5", "7", cpus=2),), busy, runs)

    assert reasons(decision) == []


def test_a_request_that_is_gone_is_forgotten_after_the_longest_pause() -> None:
    cluster = held_back()

    cluster.decide_at(LOOK + int(LONGEST_PAUSE_SECONDS) - 1, (), nodes=())
    kept = cluster.state.request_breakers
    cluster.decide_at(LOOK + int(LONGEST_PAUSE_SECONDS), (), nodes=())

    assert len(kept) == 1
    assert not cluster.state.request_breakers


def test_a_takeover_keeps_the_pause() -> None:
    stored = held_back().state.under_new_lease(2, at(LOOK + EVERY)).model_dump_json()

    successor = QueueOfSlurm(FleetState.model_validate_json(stored))
    successor.decide_at(LOOK + 20, ONE, nodes=())

    assert successor.wanted == {}


def test_a_breaker_is_stored_at_once() -> None:
    cluster = QueueOfSlurm()
    cluster.watch(LOOK - EVERY, ONE)
    before = cluster.state

    cluster.decide_at(LOOK, ONE)

    assert cluster.state.must_be_stored_after(before)
