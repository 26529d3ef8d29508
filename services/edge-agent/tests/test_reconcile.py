"""Properties of reconcile, for any desired state and any workers."""

from collections import Counter
from datetime import UTC, datetime

from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.scale import DesiredState, ShapeTarget
from clusterra_contracts.shapes import WorkerSpec
from clusterra_edge_agent.process.reconcile import Remove, Start, reconcile
from hypothesis import given
from hypothesis import strategies as st

SHAPES = ("compute-xs", "general-xs", "memory-xs")
SPEC = WorkerSpec(cpus=1, memory_mib=1024)
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
PRESENT = ("booting", "running")


@st.composite
def fleets(draw: st.DrawFn) -> tuple[Worker, ...]:
    count = draw(st.integers(0, 12))
    return tuple(
        Worker(
            name=f"w-{index}",
            shape=draw(st.sampled_from(SHAPES)),
            phase=draw(st.sampled_from(("booting", "running", "terminating", "failed"))),
            started_at=MOMENT,
        )
        for index in range(count)
    )


def desired(targets: tuple[ShapeTarget, ...] | None) -> DesiredState:
    return DesiredState(generation=1, fence=0, snapshot_generation=0, decided_at=MOMENT, targets=targets)


targets = st.lists(
    st.builds(
        ShapeTarget,
        shape=st.sampled_from(SHAPES),
        worker=st.just(SPEC),
        replicas=st.integers(0, 10),
        victims=st.lists(st.integers(0, 14).map(lambda index: f"w-{index}"), max_size=6).map(tuple),
    ),
    unique_by=lambda target: target.shape,
).map(tuple)


def carried_out(fleet: tuple[Worker, ...], state: DesiredState) -> tuple[Worker, ...]:
    removed = {action.name for action in reconcile(state, fleet) if isinstance(action, Remove)}
    started = [
        Worker(name=f"new-{action.shape}-{index}", shape=action.shape, phase="booting", started_at=MOMENT)
        for action in reconcile(state, fleet)
        if isinstance(action, Start)
        for index in range(action.count)
    ]
    stay = [w.model_copy(update={"phase": "terminating"}) if w.name in removed else w for w in fleet]
    return (*stay, *started)


@given(fleets(), targets)
def test_only_present_victims_of_their_own_shape_are_removed(
    fleet: tuple[Worker, ...], wanted: tuple[ShapeTarget, ...]
) -> None:
    allowed = {
        worker.name
        for target in wanted
        for worker in fleet
        if worker.shape == target.shape and worker.name in target.victims and worker.phase in PRESENT
    }
    removed = [action.name for action in reconcile(desired(wanted), fleet) if isinstance(action, Remove)]

    assert sorted(removed) == sorted(allowed)


@given(fleets(), targets)
def test_each_listed_shape_reaches_its_replicas_unless_it_keeps_more(
    fleet: tuple[Worker, ...], wanted: tuple[ShapeTarget, ...]
) -> None:
    state = desired(wanted)
    after = Counter(worker.shape for worker in carried_out(fleet, state) if worker.phase in PRESENT)
    for target in wanted:
        remaining = sum(
            worker.shape == target.shape and worker.phase in PRESENT and worker.name not in target.victims
            for worker in fleet
        )
        assert after[target.shape] == max(remaining, target.replicas)


@given(fleets(), targets)
def test_unlisted_shapes_are_left_unchanged(fleet: tuple[Worker, ...], wanted: tuple[ShapeTarget, ...]) -> None:
    listed = {target.shape for target in wanted}
    after = carried_out(fleet, desired(wanted))
    assert [w for w in after if w.shape not in listed] == [w for w in fleet if w.shape not in listed]


@given(fleets(), targets)
def test_a_second_reconciliation_changes_nothing(fleet: tuple[Worker, ...], wanted: tuple[ShapeTarget, ...]) -> None:
    state = desired(wanted)
    assert reconcile(state, carried_out(fleet, state)) == ()


@given(fleets())
def test_no_opinion_changes_nothing(fleet: tuple[Worker, ...]) -> None:
    assert reconcile(desired(None), fleet) == ()
    assert reconcile(desired(()), fleet) == ()


@given(fleets(), targets)
def test_starts_come_before_removals(fleet: tuple[Worker, ...], wanted: tuple[ShapeTarget, ...]) -> None:
    kinds = [isinstance(action, Remove) for action in reconcile(desired(wanted), fleet)]
    assert kinds == sorted(kinds)
