"""When a cluster may be decided on less often: nothing waits, and all workers run jobs."""

from dataclasses import replace

import pytest
from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.queue import NodeState, QueueSnapshot
from clusterra_scaler.planner.observed.observation import Edge, only_busy
from fleet_examples import START, group, node, running
from fleet_examples import snapshot as snapshot_of

NAMES = ("general-large-1", "general-large-2")


def workers(phase: str = "running") -> tuple[Worker, ...]:
    return tuple(
        Worker.model_validate({"name": name, "shape": "general-large", "phase": phase, "started_at": START})
        for name in NAMES
    )


def queue(**changes: object) -> QueueSnapshot:
    nodes = tuple(node(name, used=4).model_copy(update={"states": ("MIXED",)}) for name in NAMES)
    jobs = tuple(running(str(number), name, cpus=4) for number, name in enumerate(NAMES, start=1))
    return snapshot_of(()).model_copy(update={"running": jobs, "nodes": nodes, **changes})


def edge() -> Edge:
    return Edge(workers=workers(), listed_at=START)


def changed(**changes: object) -> tuple[NodeState, ...]:
    nodes = queue().nodes or ()
    return (nodes[0], nodes[1].model_copy(update=changes))


def test_a_cluster_whose_workers_all_run_jobs_is_only_busy() -> None:
    assert only_busy(queue(), edge())


@pytest.mark.parametrize(
    "snapshot",
    [
        queue(pending=(group("9"),)),
        queue(running=None),
        queue(nodes=None),
        queue(running=(queue().running or ())[:1]),
        queue(nodes=(queue().nodes or ())[:1]),
        queue(nodes=changed(states=("IDLE",))),
        queue(nodes=changed(states=("MIXED", "DRAIN"))),
        queue(nodes=changed(states=("MIXED", "NOT_RESPONDING"))),
        queue(nodes=changed(states=("DOWN",))),
    ],
)
def test_anything_else_in_slurm_is_decided_on_every_second(snapshot: QueueSnapshot) -> None:
    assert not only_busy(snapshot, edge())


@pytest.mark.parametrize(
    "report",
    [
        Edge(),
        replace(edge(), listed_at=None),
        replace(edge(), workers=workers("booting")),
        replace(edge(), workers=workers()[:1]),
        replace(edge(), workers=(workers()[0].model_copy(update={"leaves_by": START}), workers()[1])),
    ],
)
def test_so_is_anything_else_at_the_edge(report: Edge) -> None:
    assert not only_busy(queue(), report)
