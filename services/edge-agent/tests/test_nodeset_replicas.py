"""Plans for the replicas of a NodeSet of Slinky, against an operator that always makes the worst choice."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from clusterra_edge_agent.kubernetes.client.nodesets import SlinkyNodeSet, SlinkyPod
from clusterra_edge_agent.kubernetes.workers.replicas import SURPLUS_COST, VICTIM_COST, Plan, plan
from hypothesis import given
from hypothesis import strategies as st

STATES = ("failed", "unassigned", "pending", "unready", "ready")
BIRTH = datetime(2026, 1, 1, tzinfo=UTC)


def pod(ordinal: int, state: str = "ready", cost: int = 0, *, age: int = 0, terminating: bool = False) -> SlinkyPod:
    phase = {"unassigned": "Pending", "pending": "Pending", "failed": "Failed"}.get(state, "Running")
    return SlinkyPod.model_validate(
        {
            "metadata": {
                "name": f"w-{ordinal}",
                "creationTimestamp": (BIRTH + timedelta(seconds=age)).isoformat(),
                "deletionTimestamp": BIRTH.isoformat() if terminating else None,
                "annotations": {"nodeset.slinky.slurm.net/pod-deletion-cost": str(cost)} if cost else {},
            },
            "spec": {"nodeName": "" if state == "unassigned" else "node"},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": str(state == "ready")}]},
        }
    )


def planned(replicas: int, pods: list[SlinkyPod], desired: int, *victims: int, status: Any = None) -> Plan:
    observed = {"observedGeneration": 1, "replicas": len(pods), "readyReplicas": sum(each.ready for each in pods)} | (
        status or {}
    )
    nodeset = SlinkyNodeSet.model_validate(
        {"metadata": {"name": "w", "generation": 1}, "spec": {"replicas": replicas}, "status": observed}
    )
    return plan(nodeset, pods, desired, {f"w-{ordinal}" for ordinal in victims}, caches_fresh=True)


def test_victims_are_marked_with_the_operators_annotation_before_replicas_are_lowered() -> None:
    assert planned(3, [pod(0), pod(1), pod(2)], 2, 1) == Plan(costs={"w-1": VICTIM_COST}, unsettled=True)
    marked = [pod(0), pod(1, cost=VICTIM_COST), pod(2)]
    assert planned(3, marked, 2, 1) == Plan(lower_to=2)
    assert planned(2, marked, 2, 1) == Plan(), "its operator drains and then deletes it"


def test_a_terminating_pod_counts_and_costs_no_other_worker() -> None:
    going = pod(2, cost=VICTIM_COST, terminating=True)
    assert planned(2, [pod(0), pod(1), going], 2) == Plan()
    unmarked = pod(2, terminating=True)
    assert planned(3, [pod(0), pod(1), unmarked], 2) == Plan(costs={"w-2": VICTIM_COST}, unsettled=True)
    assert planned(3, [pod(0), pod(1), going], 2) == Plan(lower_to=2)


def test_a_victims_replacement_is_created_before_it_is_removed() -> None:
    pods = [pod(0), pod(1, cost=VICTIM_COST)]
    assert planned(2, pods, 2, 1) == Plan(raise_to=3, unsettled=True)
    assert planned(3, pods, 2, 1) == Plan(unsettled=True), "the operator has not created it yet"
    assert planned(3, [*pods, pod(2)], 2, 1) == Plan(lower_to=2)


def test_a_victim_is_deleted_by_name_while_lower_replicas_would_end_another_pod() -> None:
    pods = [pod(0), pod(1, "unassigned"), pod(2, cost=VICTIM_COST)]
    assert planned(3, pods, 2, 2) == Plan(deletions=("w-2",))

    pods[-1] = pod(2, cost=VICTIM_COST, terminating=True)
    assert planned(3, pods, 2) == Plan(unsettled=True), "lower replicas would end w-1, and w-2 would be created again"

    pods[-1] = pod(2, "unassigned", age=9)
    assert planned(3, pods, 2) == Plan(costs={"w-2": SURPLUS_COST}, unsettled=True)

    pods[-1] = pod(2, "unassigned", SURPLUS_COST, age=9)
    assert planned(3, pods, 2) == Plan(lower_to=2)


def test_replicas_are_not_lowered_while_the_operator_sees_another_state() -> None:
    pods = [pod(0), pod(1, cost=VICTIM_COST)]
    for status in ({"replicas": 3}, {"readyReplicas": 1}, {"observedGeneration": 0}):
        assert planned(2, pods, 1, 1, status=status) == Plan(unsettled=True), status


def test_replicas_that_others_lowered_are_raised() -> None:
    assert planned(1, [pod(0), pod(1)], 2) == Plan(raise_to=2)


class Cluster:
    """A NodeSet whose operator assigns the lowest free ordinals, and makes the worst choice between equal pods."""

    def __init__(self, rng: random.Random, states: list[str], desired: int) -> None:
        self.rng = rng
        self.pods = dict(enumerate(states))
        self.terminating: set[int] = set()
        self.costs: dict[int, int] = {}
        self.ages = dict.fromkeys(self.pods, 0)
        self.now = 0
        self.replicas = len(states)
        self.observed = (len(states), states.count("ready"))
        self.desired = desired
        self.victims = {ordinal for ordinal, state in self.pods.items() if state == "ready" and rng.random() < 0.4}
        started = {ordinal for ordinal, state in self.pods.items() if state in ("ready", "unready")}
        self.protected = started - self.victims
        self.lost: set[int] = set()

    def agent(self) -> Plan | None:
        """Runs one pass. Returns None when it changed nothing."""
        pods = [
            pod(n, state, self.costs.get(n, 0), age=self.ages[n], terminating=n in self.terminating)
            for n, state in self.pods.items()
        ]
        # A pod that was created after the decision is not the victim whose name it has.
        meant = [n for n in self.victims if self.ages.get(n, 0) == 0]
        observed = {"replicas": self.observed[0], "readyReplicas": self.observed[1]}
        step = planned(self.replicas, pods, self.desired, *meant, status=observed)
        self.costs |= {int(name.removeprefix("w-")): cost for name, cost in step.costs.items()}
        self.replicas = step.raise_to or self.replicas
        for name in step.deletions:
            self._end(int(name.removeprefix("w-")))
        if step.lower_to is not None:
            self.replicas = step.lower_to
        return step if step not in (Plan(), Plan(unsettled=True)) else None

    def operator(self) -> None:
        def rank(n: int) -> tuple[bool, int, bool, int, bool]:
            state = self.pods[n]
            phase = 2 if state in ("unready", "ready") else 0
            return state != "unassigned", phase, state == "ready", self.costs.get(n, 0), n not in self.protected

        for n in sorted(self.pods, key=rank)[: max(len(self.pods) - self.replicas, 0)]:
            self._end(n)
        self.now += 1
        for _ in range(self.replicas - len(self.pods)):
            free = next(n for n in range(99) if n not in self.pods)
            self.pods[free], self.ages[free], self.costs[free] = "unassigned", self.now, 0
        if len(self.pods) == self.replicas:
            for n in [n for n, state in self.pods.items() if state == "failed"]:
                self._end(n)
        self.observed = (len(self.pods), list(self.pods.values()).count("ready"))

    def nodes(self) -> None:
        following = {"unassigned": "pending", "pending": "unready", "unready": "ready"}
        for n, state in list(self.pods.items()):
            if n in self.terminating:
                if self.rng.random() < 0.5:
                    self.terminating.discard(n)
                    del self.pods[n]
            elif state in following and self.rng.random() < 0.3:
                self.pods[n] = following[state]

    def _end(self, n: int) -> None:
        if n in self.protected:
            self.lost.add(n)
        self.terminating.add(n)


@given(states=st.lists(st.sampled_from(STATES), max_size=8), desired=st.integers(0, 8), seed=st.integers(0, 10_000))
def test_only_victims_are_ever_deleted_and_the_desired_state_is_reached(
    states: list[str], desired: int, seed: int
) -> None:
    rng = random.Random(seed)
    cluster = Cluster(rng, states, desired)
    for _ in range(60):
        if rng.choice((cluster.agent, cluster.operator, cluster.nodes))() is not None:
            # Pods change more slowly than the operator reacts to its replicas.
            cluster.operator()
        assert not cluster.lost
    quiet = 0

    for _ in range(300):
        quiet = quiet + 1 if cluster.agent() is None and not cluster.terminating else 0
        cluster.operator()
        if quiet > 3:
            break
        if rng.random() < 0.5:
            cluster.nodes()
        assert not cluster.lost

    assert quiet > 3, "the plan never settles"
    assert not {n for n in cluster.victims & cluster.pods.keys() if cluster.ages[n] == 0}
    assert len(cluster.pods) == cluster.replicas >= desired
