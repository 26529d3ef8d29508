"""Nodes that Slurm tells strangely: a decision leaves them out, and serves the others."""

from typing import Any

import pytest
from clusterra_contracts.queue import NodeState
from clusterra_scaler.planner.decide import decide
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from fleet_examples import START, WITH_GPUS, edge, group, observation, running, snapshot, state, worker

WORKER = "general-small-1"


def node(name: str, cpus: int, used: int, memory_mib: int, *features: str, unreadable: bool = False) -> NodeState:
    return NodeState(
        name=name,
        states=("MIXED", "UNREADABLE") if unreadable else ("MIXED",),
        cpus=cpus,
        cpus_allocated=used,
        memory_mib=memory_mib,
        memory_allocated_mib=used * 1024,
        features=features,
        registered_at=START,
    )


def bought(policy: str, nodes: tuple[NodeState, ...], *runs: Any, **fields: Any) -> dict[str, int]:
    pending = group("1"), group("2", nodes=2, cpus=4)
    decision = decide(
        observation(snapshot(pending, runs, nodes), edge(worker(WORKER)), max_workers=10, name=policy, **fields),
        state(),
        ObservationHistory(),
        RunHistory(),
    )
    assert decision.plan is not None
    return dict(decision.plan.new)


@pytest.mark.parametrize(
    ("cpus", "memory_mib", "unreadable"), [(4, 0, True), (0, 8000, True), (0, 0, False), (4, 8000, True)]
)
def test_a_node_that_cannot_be_read_has_no_room_and_stops_nobody(
    policy: str, cpus: int, memory_mib: int, unreadable: bool
) -> None:
    odd = node("odd", cpus, 0, memory_mib, "login", unreadable=unreadable)

    assert sum(bought(policy, (odd,)).values()) >= 2


def test_a_worker_without_cpus_that_runs_a_job_stops_nobody(policy: str) -> None:
    features = WITH_GPUS["general-small"].worker.features
    odd = node(WORKER, 0, 2, 8000, *features, unreadable=True)

    assert sum(bought(policy, (odd,), running("5", WORKER, cpus=3)).values()) >= 2


def test_a_job_on_unequal_nodes_that_are_not_ours_stops_nobody(policy: str) -> None:
    nodes = node("big", 32, 10, 131072), node("little", 2, 2, 8192)

    bought(policy, nodes, running("5", "big", "little", cpus=12))


def test_a_batching_window_without_end_stops_nobody() -> None:
    assert bought("packing", (), gather_seconds=1e18) == {}
