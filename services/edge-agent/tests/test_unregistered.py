"""Unregistered workers are removed only while they do not serve."""

import pytest
from clusterra_contracts.heartbeat import Worker, WorkerPhase
from clusterra_contracts.identity import now
from clusterra_contracts.scale import DesiredState, ShapeTarget
from clusterra_contracts.shapes import WorkerSpec
from clusterra_edge_agent.control.unregistered import add_unregistered_victims
from clusterra_edge_agent.process.reconcile import Remove, Start, reconcile

SPEC = WorkerSpec(cpus=2, memory_mib=3072)


def desired(replicas: int, *unregistered: str, victims: tuple[str, ...] = ()) -> DesiredState:
    target = ShapeTarget(shape="xs", worker=SPEC, replicas=replicas, victims=victims, unregistered=unregistered)
    return DesiredState(generation=1, fence=1, snapshot_generation=1, decided_at=now(), targets=(target,))


def worker(name: str, phase: WorkerPhase) -> Worker:
    return Worker(name=name, shape="xs", phase=phase, started_at=now())


def test_an_unregistered_worker_that_does_not_serve_is_replaced() -> None:
    there = (worker("xs-1", "booting"),)
    assert reconcile(add_unregistered_victims(desired(1, "xs-1"), there), there) == (
        Start("xs", SPEC, 1),
        Remove("xs-1", unregistered=True),
    )


def test_an_unregistered_worker_that_serves_by_now_stays_and_counts() -> None:
    there = (worker("xs-1", "running"),)
    assert reconcile(add_unregistered_victims(desired(1, "xs-1"), there), there) == ()
    assert reconcile(add_unregistered_victims(desired(0, "xs-1"), there), there) == ()


@pytest.mark.parametrize("phase", ["terminating", "failed"])
def test_an_unregistered_worker_that_is_ending_is_left_unchanged(phase: WorkerPhase) -> None:
    there = (worker("xs-1", phase),)
    assert reconcile(add_unregistered_victims(desired(0, "xs-1"), there), there) == ()


def test_victims_are_removed_in_any_phase() -> None:
    there = (worker("xs-1", "booting"), worker("xs-2", "running"), worker("xs-3", "booting"))
    present = add_unregistered_victims(desired(1, "xs-1", victims=("xs-2",)), there)
    assert reconcile(present, there) == (Remove("xs-1", unregistered=True), Remove("xs-2"))


def test_no_opinion_stays_none() -> None:
    nothing = desired(0).model_copy(update={"targets": None})
    assert add_unregistered_victims(nothing, ()) is nothing
