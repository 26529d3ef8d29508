"""Plans for the active nodes of a NodeSet of Soperator."""

import random
from typing import Any

from clusterra_edge_agent.kubernetes.client.nodesets import PowerState, SoperatorNodeSet
from clusterra_edge_agent.kubernetes.client.resources import Pod
from clusterra_edge_agent.kubernetes.workers.soperator_ordinals import Ordinals, plan
from hypothesis import given
from hypothesis import strategies as st

STATES = ("pending", "ready", "terminating", "failed")


def pod(ordinal: int, state: str) -> Pod:
    phase = {"pending": "Pending", "failed": "Failed"}.get(state, "Running")
    metadata: dict[str, Any] = {"name": f"gpu-{ordinal}", "uid": f"uid-{ordinal}"}
    if state == "terminating":
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return Pod.model_validate({"metadata": metadata, "status": {"phase": phase}})


def planned(
    active: set[int], pods: dict[int, str], desired: int, victims: set[int] | None = None, *, most: int = 8
) -> Ordinals:
    nodeset = SoperatorNodeSet.model_validate({"metadata": {"name": "gpu"}, "spec": {"replicas": most}})
    power_state = PowerState.model_validate({"metadata": {"name": "gpu"}, "spec": {"activeNodes": sorted(active)}})
    names = {f"gpu-{ordinal}" for ordinal in victims or ()}
    return plan(nodeset, power_state, [pod(*each) for each in pods.items()], desired, names)


def test_more_workers_get_the_lowest_free_ordinals() -> None:
    assert planned(set(), {}, 3) == Ordinals((0, 1, 2))
    assert planned({0, 3}, {0: "ready", 3: "ready"}, 4) == Ordinals((0, 1, 2, 3))
    assert planned({0}, {0: "ready", 1: "terminating"}, 2) == Ordinals((0, 2)), "the pod of ordinal 1 still exists"


def test_exactly_the_victims_are_removed() -> None:
    assert planned({0, 1, 2}, {0: "pending", 1: "ready", 2: "ready"}, 2, {1}) == Ordinals((0, 2))
    assert planned({0, 1, 2}, {0: "ready", 1: "ready", 2: "pending"}, 1) == Ordinals(), "there is no victim"


def test_the_name_of_a_victim_is_not_given_to_its_replacement() -> None:
    assert planned({0, 1}, {0: "ready", 1: "ready"}, 2, {0}) == Ordinals((1, 2))
    assert planned({1, 2}, {1: "ready", 2: "ready"}, 3, {0}) == Ordinals((1, 2, 3))


def test_an_ordinal_removed_by_others_is_restored_while_its_worker_runs() -> None:
    assert planned({0}, {0: "ready", 1: "ready"}, 1) == Ordinals((0, 1))
    assert planned({0}, {0: "ready", 1: "terminating"}, 1) == Ordinals()


def test_no_ordinal_exceeds_the_replicas_of_the_nodeset() -> None:
    assert planned({0}, {0: "ready"}, 4, most=2) == Ordinals((0, 1), missing=2)
    assert planned({0, 5}, {0: "ready", 5: "ready"}, 2, most=2) == Ordinals(), "existing workers stay"


def test_workers_of_other_nodesets_have_no_ordinal() -> None:
    nodeset = SoperatorNodeSet.model_validate({"metadata": {"name": "gpu"}})
    names = ("gpu-0", "gpu-12", "gpu-big-1", "gpu", "gpu-", "gpu-01", "gpu-x", "cpu-1", "1")
    assert [nodeset.ordinal(name) for name in names] == [0, 12, None, None, None, None, None, None, None]


ordinal_sets = st.sets(st.integers(0, 7))


@given(
    active=ordinal_sets,
    pods=st.dictionaries(st.integers(0, 7), st.sampled_from(STATES)),
    desired=st.integers(0, 9),
    victims=ordinal_sets,
    most=st.integers(0, 9),
)
def test_a_plan_removes_only_victims_and_adds_only_missing_workers(
    active: set[int], pods: dict[int, str], desired: int, victims: set[int], most: int
) -> None:
    step = planned(active, pods, desired, victims, most=most)
    after = active if step.active is None else set(step.active)
    working = {ordinal for ordinal, state in pods.items() if state == "ready"}
    remaining = (active | working) - victims
    added = after - remaining

    assert active - after == active & victims, "exactly the victims"
    assert remaining <= after
    assert len(after) + step.missing == max(desired, len(remaining))
    assert not added & (victims | pods.keys())
    assert all(ordinal < most for ordinal in added)

    free = set(range(most)) - remaining - victims - pods.keys()
    assert not step.missing or added == free
    assert added == set(sorted(free)[: len(added)]), "the lowest ordinals"
    assert planned(after, pods, desired, victims, most=most).active is None, "an executed plan is complete"


class Cluster:
    """A NodeSet whose operator reacts late, whose pods progress, and whose active nodes others edit."""

    def __init__(self, rng: random.Random, desired: int) -> None:
        self.rng = rng
        self.active = {ordinal for ordinal in range(6) if rng.random() < 0.6}
        self.pods = {ordinal: rng.choice(("pending", "ready")) for ordinal in self.active}
        self.desired = desired
        self.victims = {ordinal for ordinal, state in self.pods.items() if state == "ready" and rng.random() < 0.4}
        self.unnamed_by_agent: set[int] = set()

    def agent(self) -> bool:
        step = planned(self.active, self.pods, self.desired, self.victims, most=12)
        if step.active is not None:
            self.unnamed_by_agent |= self.active - set(step.active) - self.victims
            self.active = set(step.active)
        return step.active is not None

    def operator(self) -> None:
        for ordinal in self.pods.keys() - self.active:
            self.pods[ordinal] = "terminating"
        for ordinal in self.active - self.pods.keys():
            self.pods[ordinal] = "pending"

    def nodes(self) -> None:
        for ordinal, state in list(self.pods.items()):
            if state == "terminating":
                del self.pods[ordinal]
            elif state == "pending" and self.rng.random() < 0.4:
                self.pods[ordinal] = "ready"

    def others(self) -> None:
        self.active ^= {self.rng.randrange(8)} - self.victims


@given(desired=st.integers(0, 8), seed=st.integers(0, 10_000))
def test_the_desired_state_is_reached_whatever_others_do(desired: int, seed: int) -> None:
    rng = random.Random(seed)
    cluster = Cluster(rng, desired)
    for _ in range(40):
        rng.choice((cluster.agent, cluster.operator, cluster.nodes, cluster.others))()

    for _ in range(20):
        changed = cluster.agent()
        cluster.operator()
        cluster.nodes()

    assert not changed
    assert not cluster.unnamed_by_agent
    assert not cluster.active & cluster.victims
    assert len(cluster.active) >= desired
    assert cluster.pods.keys() == cluster.active
