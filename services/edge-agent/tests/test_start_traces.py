"""The trace that a worker's start counts for."""

from datetime import UTC, datetime

from clusterra_contracts.scale import DesiredState, ShapeTarget
from clusterra_contracts.shapes import WorkerSpec
from clusterra_edge_agent.control.start_traces import StartTrace, StartTraces

AT = datetime(2026, 3, 1, tzinfo=UTC)
SPEC = WorkerSpec(cpus=2, memory_mib=4096)


def state(generation: int, **replicas: int) -> DesiredState:
    targets = tuple(ShapeTarget(shape=shape, worker=SPEC, replicas=count) for shape, count in replicas.items())
    return DesiredState(generation=generation, fence=1, snapshot_generation=1, decided_at=AT, targets=targets)


def test_a_start_counts_for_the_last_state_that_wanted_more_workers_of_its_shape() -> None:
    starts = StartTraces()

    starts.note(state(1, small=1), "first", AT)
    starts.note(state(2, small=2, large=1), "second", AT)
    starts.note(state(3, small=1, large=1), "fewer", AT)

    assert starts.of("small") == StartTrace("second", AT)
    assert starts.of("large") == StartTrace("second", AT)
    assert starts.of("other") is None
