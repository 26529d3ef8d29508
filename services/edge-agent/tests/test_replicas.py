"""Plans for replicas and deletions, against a ReplicaSet that always makes the worst choice."""

import random
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from clusterra_edge_agent.kubernetes.client.resources import DELETION_COST, Deployment, Pod
from clusterra_edge_agent.kubernetes.workers.replicas import SURPLUS_COST, VICTIM_COST, Plan, plan
from hypothesis import given
from hypothesis import strategies as st

STATES = ("unassigned", "pending", "unready", "ready")
"""States of active pods, in the order in which a ReplicaSet deletes them."""
BIRTH = datetime(2026, 1, 1, tzinfo=UTC)


def pod(name: str, state: str = "ready", cost: int = 0, age: int = 0) -> Pod:
    """Returns a pod; `state` is `unassigned`, `pending`, `unready`, `ready`, `terminating` or `failed`."""
    phase = {"unassigned": "Pending", "pending": "Pending", "failed": "Failed"}.get(state, "Running")
    ready = state in ("ready", "terminating")
    return Pod.model_validate(
        {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "creationTimestamp": (BIRTH + timedelta(seconds=age)).isoformat(),
                "deletionTimestamp": BIRTH.isoformat() if state == "terminating" else None,
                "annotations": {DELETION_COST: str(cost)} if cost else {},
            },
            "spec": {"nodeName": "" if state == "unassigned" else "node"},
            "status": {
                "phase": phase,
                "conditions": [{"type": "Ready", "status": str(ready)}],
            },
        }
    )


def deployment(wanted: int, pods: list[Pod], **status: Any) -> Deployment:
    active = [each for each in pods if each.active]
    observed: dict[str, Any] = {
        "observedGeneration": 1,
        "replicas": len(active),
        "readyReplicas": sum(each.ready for each in active),
        **status,
    }
    return Deployment.model_validate(
        {"metadata": {"name": "d", "generation": 1}, "spec": {"replicas": wanted}, "status": observed}
    )


def planned(replicas: int, pods: list[Pod], desired: int, *victims: str, caches_fresh: bool = True) -> Plan:
    return plan(deployment(replicas, pods), pods, desired, victims, caches_fresh=caches_fresh)


def test_scaling_up_only_raises_the_replicas() -> None:
    assert planned(0, [], 3) == Plan(raise_to=3)
    assert planned(3, [pod("a")], 3) == Plan()


def test_victims_among_ready_workers_are_marked_before_replicas_are_lowered() -> None:
    pods = [pod("a"), pod("b"), pod("c")]
    assert planned(3, pods, 2, "b") == Plan(costs={"b": VICTIM_COST}, unsettled=True)
    marked = [pod("a"), pod("b", cost=VICTIM_COST), pod("c")]
    assert planned(3, marked, 2, "b") == Plan(lower_to=2)
    assert planned(2, marked, 2, "b") == Plan(), "its ReplicaSet is about to delete it"


def test_with_the_policy_marks_and_lower_replicas_are_sent_together() -> None:
    pods = [pod("a"), pod("b"), pod("c")]
    together = Plan(costs={"b": VICTIM_COST}, lower_to=2)
    assert plan(deployment(3, pods), pods, 2, {"b"}, caches_fresh=True, policy_enforced=True) == together

    wanted_again = [pod("a", cost=VICTIM_COST), pod("b"), pod("c")]
    first = Plan(costs={"a": 0, "b": VICTIM_COST}, unsettled=True)
    assert (
        plan(deployment(3, wanted_again), wanted_again, 2, {"b"}, caches_fresh=True, policy_enforced=True) == first
    ), "the ReplicaSet may still delete a"

    starting = [pod("a"), pod("b", "pending"), pod("c", "pending", age=9)]
    first = Plan(costs={"c": SURPLUS_COST}, unsettled=True)
    assert plan(deployment(3, starting), starting, 2, (), caches_fresh=True, policy_enforced=True) == first, (
        "b might go in its place"
    )


def test_a_victim_is_deleted_by_name_while_lower_replicas_would_end_another_pod() -> None:
    for other in ("unassigned", "pending", "unready"):
        pods = [pod("a"), pod("b", other), pod("v")]
        assert planned(3, pods, 2, "v") == Plan(costs={"v": VICTIM_COST}, deletions=("v",)), other


def test_nothing_is_deleted_by_name_while_caches_may_be_stale() -> None:
    """The ReplicaSet would wait for the deleted pod and create no other."""
    for pods, replicas, desired in (
        ([pod("a"), pod("b", "pending"), pod("v", cost=VICTIM_COST)], 3, 2),
        ([pod("a"), pod("v", cost=VICTIM_COST)], 2, 2),
    ):
        observed = deployment(replicas, pods)
        for policy_enforced in (False, True):
            assert plan(observed, pods, desired, {"v"}, caches_fresh=False, policy_enforced=policy_enforced) == Plan(
                unsettled=True
            )
            assert plan(observed, pods, desired, {"v"}, caches_fresh=True, policy_enforced=policy_enforced) == Plan(
                deletions=("v",)
            )
    more = Plan(costs={"v": VICTIM_COST}, raise_to=3, unsettled=True)
    assert planned(2, [pod("a"), pod("v")], 3, "v", caches_fresh=False) == more
    assert planned(2, [pod("a")], 2, "gone", caches_fresh=False) == Plan()

    three = [pod("a"), pod("b"), pod("v", cost=VICTIM_COST)]
    assert plan(deployment(3, three), three, 2, {"v"}, caches_fresh=False, policy_enforced=True) == Plan(lower_to=2)


def test_the_pod_created_in_a_victims_place_is_removed_before_it_starts() -> None:
    pods = [pod("a"), pod("b", "unready"), pod("v", "terminating"), pod("new", "unassigned", age=9)]
    assert planned(3, pods, 2) == Plan(costs={"new": SURPLUS_COST}, unsettled=True)
    pods[-1] = pod("new", "pending", cost=SURPLUS_COST, age=9)
    assert planned(3, pods, 2) == Plan(lower_to=2)
    pods[-1] = pod("new", "ready", cost=SURPLUS_COST, age=9)
    assert planned(3, pods, 2) == Plan(costs={"new": 0}), "too late: it is a worker now, and no victim"


def test_a_deleted_victim_is_replaced_by_the_missing_worker() -> None:
    assert planned(2, [pod("a"), pod("v")], 2, "v") == Plan(costs={"v": VICTIM_COST}, deletions=("v",))
    assert planned(2, [pod("a"), pod("v")], 3, "v") == Plan(costs={"v": VICTIM_COST}, raise_to=3, deletions=("v",))


def test_replicas_are_not_lowered_while_controllers_may_see_another_state() -> None:
    pods = [pod("a"), pod("v", cost=VICTIM_COST)]
    for status in ({"replicas": 3}, {"readyReplicas": 1}, {"observedGeneration": 0}):
        assert plan(deployment(2, pods, **status), pods, 1, {"v"}, caches_fresh=True) == Plan(unsettled=True), status
        assert plan(deployment(2, pods, **status), pods, 1, {"v"}, caches_fresh=True, policy_enforced=True) == Plan(
            lower_to=1
        ), status
    assert planned(2, pods, 1, "v", caches_fresh=False) == Plan(unsettled=True)
    assert planned(9, [pod("a")], 1) == Plan(unsettled=True), "replicas set by others, whose pods may already exist"

    failing = {"conditions": [{"type": "ReplicaFailure", "status": "True"}]}
    assert plan(deployment(9, [pod("a")], **failing), [pod("a")], 1, (), caches_fresh=True) == Plan(lower_to=1)


def test_unnamed_workers_stay_and_unstarted_pods_are_removed() -> None:
    assert planned(3, [pod("a"), pod("b"), pod("c")], 1) == Plan()
    assert planned(3, [pod("a"), pod("b"), pod("c", "pending", cost=SURPLUS_COST)], 1) == Plan(lower_to=2)


def test_replicas_that_would_end_a_worker_are_raised() -> None:
    assert planned(1, [pod("a"), pod("b")], 1) == Plan(raise_to=2), "replicas set by others"
    pods = [pod("a", "unready"), pod("b"), pod("n", cost=SURPLUS_COST)]
    assert planned(2, pods, 2, "n") == Plan(costs={"n": VICTIM_COST}, raise_to=3), "a became unready"


def test_a_victim_that_is_desired_again_loses_its_mark() -> None:
    assert planned(1, [pod("a", cost=VICTIM_COST)], 1) == Plan(costs={"a": 0})


class Cluster:
    """A Deployment with a late ReplicaSet that makes the worst choice between equals, and pods that progress.

    With `policy_enforced`, the ReplicaSet cannot delete a started pod without the mark, and reacts before the marks are
    set.
    """

    def __init__(self, rng: random.Random, states: list[str], desired: int, *, policy_enforced: bool) -> None:
        self.rng = rng
        self.policy_enforced = policy_enforced
        self.pods = {f"p{number}": state for number, state in enumerate(states)}
        self.costs: dict[str, int] = {}
        self.replicas = len(states)
        self.observed = (len(states), states.count("ready"))
        self.born = len(states)
        self.desired = desired
        self.victims = {name for name, state in self.pods.items() if state == "ready" and rng.random() < 0.4}
        self.protected = {name for name, state in self.pods.items() if state in ("ready", "unready")} - self.victims
        self.lost: set[str] = set()

    def view(self) -> list[Pod]:
        return [pod(name, state, self.costs.get(name, 0), age=int(name[1:])) for name, state in self.pods.items()]

    def agent(self, *, caches_fresh: bool = True) -> Plan | None:
        """Runs one pass. Returns None when it changed nothing."""
        pods = self.view()
        observed = deployment(self.replicas, pods, replicas=self.observed[0], readyReplicas=self.observed[1])
        step = plan(
            observed, pods, self.desired, self.victims, caches_fresh=caches_fresh, policy_enforced=self.policy_enforced
        )
        assert caches_fresh or not step.deletions
        if step.lower_to is not None:
            self.replicas = step.lower_to
            if step.costs:
                self.replica_set()
        self.costs.update(step.costs)
        if step.raise_to is not None:
            self.replicas = step.raise_to
        for name in step.deletions:
            self._end(name)
        return step if step != Plan() else None

    def replica_set(self) -> None:
        active = {name: state for name, state in self.pods.items() if state != "terminating"}

        def rank(name: str) -> tuple[int, int, bool]:
            # The worst choice between equals: a protected pod comes first.
            return STATES.index(active[name]), self.costs.get(name, 0), name not in self.protected

        for name in sorted(active, key=rank)[: max(len(active) - self.replicas, 0)]:
            started = active[name] in ("unready", "ready")
            if not (self.policy_enforced and started and self.costs.get(name, 0) > VICTIM_COST):
                self._end(name)
        for _ in range(self.replicas - len(active)):
            self.pods[f"p{self.born}"] = "unassigned"
            self.born += 1
        now = [state for state in self.pods.values() if state != "terminating"]
        self.observed = (len(now), now.count("ready"))

    def nodes(self) -> None:
        following = {"unassigned": "pending", "pending": "unready", "unready": "ready"}
        for name, state in list(self.pods.items()):
            if state == "terminating":
                if self.rng.random() < 0.5:
                    del self.pods[name]
            elif state in following and self.rng.random() < 0.3:
                self.pods[name] = following[state]

    def _end(self, name: str) -> None:
        if name in self.protected:
            self.lost.add(name)
        self.pods[name] = "terminating"


@given(
    states=st.lists(st.sampled_from(STATES), max_size=8),
    desired=st.integers(0, 8),
    seed=st.integers(0, 10_000),
    policy_enforced=st.booleans(),
)
def test_only_victims_are_ever_deleted_and_the_desired_state_is_reached(
    states: list[str], desired: int, seed: int, policy_enforced: bool
) -> None:
    rng = random.Random(seed)
    cluster = Cluster(rng, states, desired, policy_enforced=policy_enforced)
    for _ in range(60):
        agent = partial(cluster.agent, caches_fresh=rng.random() < 0.5)
        if rng.choice((agent, cluster.replica_set, cluster.nodes))() is not None:
            # Pods change more slowly than a ReplicaSet reacts to its replicas.
            cluster.replica_set()
        assert not cluster.lost
    quiet = 0
    for _ in range(200):
        quiet = quiet + 1 if cluster.agent() is None else 0
        cluster.replica_set()
        if quiet > 3:
            break
        if rng.random() < 0.5:
            cluster.nodes()
        assert not cluster.lost
    active = {name for name, state in cluster.pods.items() if state != "terminating"}

    assert not active & cluster.victims
    assert len(active) == cluster.replicas >= desired

    unstarted = {name for name in active if cluster.pods[name] in ("unassigned", "pending")}
    assert len(active) == desired or not unstarted, "only workers that are no victims exceed the desired number"


@given(
    replicas=st.integers(0, 12),
    states=st.lists(
        st.sampled_from(["unassigned", "pending", "unready", "ready", "terminating", "failed"]), max_size=10
    ),
    desired=st.integers(0, 12),
    named=st.sets(st.integers(0, 9)),
)
def test_a_plan_deletes_only_victims_and_never_lowers_replicas_at_the_same_time(
    replicas: int, states: list[str], desired: int, named: set[int]
) -> None:
    pods = [pod(f"p{number}", state) for number, state in enumerate(states)]
    victims = {f"p{number}" for number in named}
    step = planned(replicas, pods, desired, *victims)
    active = {each.name for each in pods if each.active}

    assert set(step.deletions) <= victims & active
    assert step.lower_to is None or step == Plan(lower_to=step.lower_to)
    assert step.raise_to is None or step.raise_to > replicas

    if step.lower_to is not None:
        assert desired <= step.lower_to < replicas
    protected = {each.name for each in pods if each.active and each.started and each.name not in victims}
    assert all(cost == 0 or name not in protected for name, cost in step.costs.items())
