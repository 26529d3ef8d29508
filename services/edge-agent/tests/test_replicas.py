"""What replicas and deletions are planned, against a ReplicaSet that makes the worst of every freedom it has."""

import random
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from clusterra_edge_agent.kubernetes.client.resources import DELETION_COST, Deployment, Pod
from clusterra_edge_agent.kubernetes.workers.replicas import SURPLUS_COST, VICTIM_COST, Plan, plan
from hypothesis import given
from hypothesis import strategies as st

STATES = ("unassigned", "pending", "unready", "ready")
"""Of active pods, in the order in which a ReplicaSet deletes them."""
BIRTH = datetime(2026, 1, 1, tzinfo=UTC)


def pod(name: str, state: str = "ready", cost: int = 0, age: int = 0) -> Pod:
    """`unassigned`, `pending`, `unready`, `ready`, `terminating` or `failed`."""
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
    seen: dict[str, Any] = {
        "observedGeneration": 1,
        "replicas": len(active),
        "readyReplicas": sum(each.ready for each in active),
        **status,
    }
    return Deployment.model_validate(
        {"metadata": {"name": "d", "generation": 1}, "spec": {"replicas": wanted}, "status": seen}
    )


def planned(replicas: int, pods: list[Pod], desired: int, *victims: str, calm: bool = True) -> Plan:
    return plan(deployment(replicas, pods), pods, desired, victims, calm=calm)


def test_more_workers_are_one_number() -> None:
    assert planned(0, [], 3) == Plan(raise_to=3)
    assert planned(3, [pod("a")], 3) == Plan()


def test_idle_victims_among_ready_workers_are_marked_and_then_go_with_lower_replicas() -> None:
    pods = [pod("a"), pod("b"), pod("c")]
    assert planned(3, pods, 2, "b") == Plan(costs={"b": VICTIM_COST}, unsettled=True)
    marked = [pod("a"), pod("b", cost=VICTIM_COST), pod("c")]
    assert planned(3, marked, 2, "b") == Plan(lower_to=2)
    assert planned(2, marked, 2, "b") == Plan(), "its ReplicaSet is about to delete it"


def test_where_the_policy_keeps_the_others_marks_and_lower_replicas_go_together() -> None:
    pods = [pod("a"), pod("b"), pod("c")]
    together = Plan(costs={"b": VICTIM_COST}, lower_to=2)
    assert plan(deployment(3, pods), pods, 2, {"b"}, calm=True, guarded=True) == together
    wanted_again = [pod("a", cost=VICTIM_COST), pod("b"), pod("c")]
    first = Plan(costs={"a": 0, "b": VICTIM_COST}, unsettled=True)
    assert plan(deployment(3, wanted_again), wanted_again, 2, {"b"}, calm=True, guarded=True) == first, "a may go yet"
    starting = [pod("a"), pod("b", "pending"), pod("c", "pending", age=9)]
    first = Plan(costs={"c": SURPLUS_COST}, unsettled=True)
    assert plan(deployment(3, starting), starting, 2, (), calm=True, guarded=True) == first, "b might go in its place"


def test_a_victim_is_deleted_by_name_while_another_pod_would_go_in_its_place() -> None:
    for other in ("unassigned", "pending", "unready"):
        pods = [pod("a"), pod("b", other), pod("v")]
        assert planned(3, pods, 2, "v") == Plan(costs={"v": VICTIM_COST}, deletions=("v",)), other


def test_nothing_is_deleted_by_name_before_the_replicaset_has_surely_seen_it() -> None:
    """It would wait for the pod, and make no other."""
    for pods, replicas, desired in (
        ([pod("a"), pod("b", "pending"), pod("v", cost=VICTIM_COST)], 3, 2),
        ([pod("a"), pod("v", cost=VICTIM_COST)], 2, 2),
    ):
        seen = deployment(replicas, pods)
        for guarded in (False, True):
            assert plan(seen, pods, desired, {"v"}, calm=False, guarded=guarded) == Plan(unsettled=True)
            assert plan(seen, pods, desired, {"v"}, calm=True, guarded=guarded) == Plan(deletions=("v",))
    more = Plan(costs={"v": VICTIM_COST}, raise_to=3, unsettled=True)
    assert planned(2, [pod("a"), pod("v")], 3, "v", calm=False) == more
    assert planned(2, [pod("a")], 2, "gone", calm=False) == Plan()
    three = [pod("a"), pod("b"), pod("v", cost=VICTIM_COST)]
    assert plan(deployment(3, three), three, 2, {"v"}, calm=False, guarded=True) == Plan(lower_to=2)


def test_what_the_replicaset_made_in_its_place_is_marked_and_then_goes_before_it_starts() -> None:
    pods = [pod("a"), pod("b", "unready"), pod("v", "terminating"), pod("new", "unassigned", age=9)]
    assert planned(3, pods, 2) == Plan(costs={"new": SURPLUS_COST}, unsettled=True)
    pods[-1] = pod("new", "pending", cost=SURPLUS_COST, age=9)
    assert planned(3, pods, 2) == Plan(lower_to=2)
    pods[-1] = pod("new", "ready", cost=SURPLUS_COST, age=9)
    assert planned(3, pods, 2) == Plan(costs={"new": 0}), "too late: it is a worker, which nobody named"


def test_a_missing_worker_and_a_victim_are_one_pod_for_another() -> None:
    assert planned(2, [pod("a"), pod("v")], 2, "v") == Plan(costs={"v": VICTIM_COST}, deletions=("v",))
    assert planned(2, [pod("a"), pod("v")], 3, "v") == Plan(costs={"v": VICTIM_COST}, raise_to=3, deletions=("v",))


def test_nothing_is_lowered_while_the_controllers_may_see_something_else() -> None:
    pods = [pod("a"), pod("v", cost=VICTIM_COST)]
    for status in ({"replicas": 3}, {"readyReplicas": 1}, {"observedGeneration": 0}):
        assert plan(deployment(2, pods, **status), pods, 1, {"v"}, calm=True) == Plan(unsettled=True), status
        assert plan(deployment(2, pods, **status), pods, 1, {"v"}, calm=True, guarded=True) == Plan(lower_to=1), status
    assert planned(2, pods, 1, "v", calm=False) == Plan(unsettled=True)
    assert planned(9, [pod("a")], 1) == Plan(unsettled=True), "foreign replicas, which may be made already"
    refused = {"conditions": [{"type": "ReplicaFailure", "status": "True"}]}
    assert plan(deployment(9, [pod("a")], **refused), [pod("a")], 1, (), calm=True) == Plan(lower_to=1)


def test_workers_that_nobody_named_stay_and_unstarted_ones_go() -> None:
    assert planned(3, [pod("a"), pod("b"), pod("c")], 1) == Plan()
    assert planned(3, [pod("a"), pod("b"), pod("c", "pending", cost=SURPLUS_COST)], 1) == Plan(lower_to=2)


def test_replicas_that_would_end_a_worker_are_raised() -> None:
    assert planned(1, [pod("a"), pod("b")], 1) == Plan(raise_to=2), "foreign replicas"
    pods = [pod("a", "unready"), pod("b"), pod("n", cost=SURPLUS_COST)]
    assert planned(2, pods, 2, "n") == Plan(costs={"n": VICTIM_COST}, raise_to=3), "a became not ready"


def test_a_victim_that_is_wanted_again_loses_its_mark() -> None:
    assert planned(1, [pod("a", cost=VICTIM_COST)], 1) == Plan(costs={"a": 0})


class Cluster:
    """A Deployment with a ReplicaSet that acts late and picks the worst among equals, and pods that move on.

    Where it is `guarded`, a ReplicaSet cannot delete a started pod without the mark, and is quicker than the marks.
    """

    def __init__(self, rng: random.Random, states: list[str], desired: int, *, guarded: bool) -> None:
        self.rng = rng
        self.guarded = guarded
        self.pods = {f"p{number}": state for number, state in enumerate(states)}
        self.costs: dict[str, int] = {}
        self.replicas = len(states)
        self.seen = (len(states), states.count("ready"))
        self.born = len(states)
        self.desired = desired
        self.victims = {name for name, state in self.pods.items() if state == "ready" and rng.random() < 0.4}
        self.protected = {name for name, state in self.pods.items() if state in ("ready", "unready")} - self.victims
        self.lost: set[str] = set()

    def view(self) -> list[Pod]:
        return [pod(name, state, self.costs.get(name, 0), age=int(name[1:])) for name, state in self.pods.items()]

    def agent(self, *, calm: bool = True) -> Plan | None:
        """None when it changed nothing."""
        pods = self.view()
        seen = deployment(self.replicas, pods, replicas=self.seen[0], readyReplicas=self.seen[1])
        step = plan(seen, pods, self.desired, self.victims, calm=calm, guarded=self.guarded)
        assert calm or not step.deletions
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
            # The worst among equals: whoever must not go.
            return STATES.index(active[name]), self.costs.get(name, 0), name not in self.protected

        for name in sorted(active, key=rank)[: max(len(active) - self.replicas, 0)]:
            started = active[name] in ("unready", "ready")
            if not (self.guarded and started and self.costs.get(name, 0) > VICTIM_COST):
                self._end(name)
        for _ in range(self.replicas - len(active)):
            self.pods[f"p{self.born}"] = "unassigned"
            self.born += 1
        now = [state for state in self.pods.values() if state != "terminating"]
        self.seen = (len(now), now.count("ready"))

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
    guarded=st.booleans(),
)
def test_no_worker_but_the_victims_is_ever_deleted_and_all_ends_as_desired(
    states: list[str], desired: int, seed: int, guarded: bool
) -> None:
    rng = random.Random(seed)
    cluster = Cluster(rng, states, desired, guarded=guarded)
    for _ in range(60):
        agent = partial(cluster.agent, calm=rng.random() < 0.5)
        if rng.choice((agent, cluster.replica_set, cluster.nodes))() is not None:
            # Pods take longer to move on than a ReplicaSet to look at its replicas.
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
    assert len(active) == desired or not unstarted, "only workers that nobody named are more than desired"


@given(
    replicas=st.integers(0, 12),
    states=st.lists(
        st.sampled_from(["unassigned", "pending", "unready", "ready", "terminating", "failed"]), max_size=10
    ),
    desired=st.integers(0, 12),
    named=st.sets(st.integers(0, 9)),
)
def test_a_plan_names_victims_only_and_never_lowers_beside_a_deletion(
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
