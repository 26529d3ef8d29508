"""What the event of a decision tells of the shapes that were not bought, each from a decision that was really made."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from clusterra_contracts.alternatives import MOST_OF_CHANGE
from clusterra_contracts.events import ScaleFact, ShapeChange
from clusterra_scaler.decisions.record import DecisionOutput
from clusterra_scaler.explain import purchase_alternatives
from clusterra_scaler.explain.purchase_alternatives import with_alternatives
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from explanation_examples import ADA, empty_cluster, explained
from fleet_examples import CATALOGUE, START, group, observation, snapshot, state, target
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

ADMIN = ADA.model_copy(update={"admin": True})


@pytest.fixture(scope="module", autouse=True)
def _time_enough() -> Iterator[None]:
    """So that a slow machine compares all."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(purchase_alternatives, "COMPARE_CPU_SECONDS", 90.0)
        yield


def decided(view: Observation, before: FleetState | None = None) -> tuple[Decision, Decision]:
    """A decision, and the same one as its event tells it."""
    history = RunHistory()
    decision = decide(view, before or FleetState.initial(START), ObservationHistory(), history)
    return decision, with_alternatives(decision, view, history)


def plain(change: ShapeChange) -> ShapeChange:
    return change.model_copy(update={"alternatives": (), "compared_jobs": ()})


queues = st.lists(
    st.builds(
        lambda cpus, gib, count, uid: group(cpus=cpus, memory_per_node_mib=gib * 1024, count=count, uid=uid),
        st.integers(1, 40),
        st.sampled_from((1, 8, 60, 900)),
        st.integers(1, 4),
        st.sampled_from((20001, 20002)),
    ),
    max_size=6,
)
policies = st.fixed_dictionaries(
    {"name": st.sampled_from(("packing", "family"))},
    optional={"max_workers": st.integers(0, 5), "warm": st.just({"general-small": 2})},
)


@given(queues, policies)
def test_each_purchase_for_jobs_tells_the_nearest_shapes_as_the_explanation_of_its_first_job(
    queue: list[Any], policy: dict[str, Any]
) -> None:
    pending = tuple(each.model_copy(update={"job_ids": (str(i), str(100 + i))}) for i, each in enumerate(queue, 1))
    view = empty_cluster(*pending, **policy)

    decision, told = decided(view)

    assert tuple(map(plain, told.changes)) == decision.changes
    assert (told.state, told.actions) == (decision.state, decision.actions)
    for change in told.changes:
        assert bool(change.alternatives) == bool(change.compared_jobs) == bool(change.job_ids)
        if not change.alternatives:
            continue
        first = change.job_ids[0]
        assert change.alternatives == explained(first, view, viewer=ADMIN).alternatives[:MOST_OF_CHANGE]
        assert change.shape in {each.shape for each in change.alternatives if each.verdict == "chosen"}
        (asked,) = (each for each in pending if first in each.job_ids)
        assert set(change.compared_jobs) == set(change.job_ids) & set(asked.job_ids)


def test_a_change_without_a_purchase_compares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purchase_alternatives, "for_waiting", None)  # it would fail
    warm = decided(empty_cluster(warm={"general-small": 1}))[1]
    down = decided(empty_cluster(), state(target("compute-xs", 2)))[1]
    unread = decided(observation(snapshot(None)))[1]

    assert [(each.replicas_after, each.alternatives) for each in warm.changes] == [(1, ())]
    assert [(each.replicas_after, each.alternatives) for each in down.changes] == [(0, ())]
    assert unread.changes == ()


def test_a_bounded_number_of_changes_is_compared_those_that_buy_most(monkeypatch: pytest.MonkeyPatch) -> None:
    few = group("1", cpus=2, count=1, features="memory")
    many = group("2", cpus=2, count=9, features="compute", exclusive=True)
    monkeypatch.setattr(purchase_alternatives, "MOST_COMPARED", 1)

    told = decided(empty_cluster(few, many))[1]

    assert len(told.changes) > 1
    assert [each.compared_jobs for each in told.changes if each.alternatives] == [("2",)]


def test_an_event_has_alternatives_as_far_as_it_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    few = group("1", cpus=2, count=1, features="memory")
    many = group("2", cpus=2, count=9, features="compute", exclusive=True)
    decision, whole = decided(empty_cluster(few, many))
    sizes = len(decision.fact.model_dump_json()), len(whole.fact.model_dump_json())
    assert len([each for each in whole.changes if each.alternatives]) == 2

    monkeypatch.setattr(purchase_alternatives, "MOST_EVENT_BYTES", sizes[1] - 1)
    one = decided(empty_cluster(few, many))[1]
    monkeypatch.setattr(purchase_alternatives, "MOST_EVENT_BYTES", sizes[0])
    none = decided(empty_cluster(few, many))[1]

    assert [each.compared_jobs for each in one.changes if each.alternatives] == [("2",)], "which buys most"
    assert len(one.fact.model_dump_json()) < sizes[1]
    assert none.changes == decision.changes


def test_after_its_time_what_was_compared_is_kept_and_no_more_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    few = group("1", cpus=2, count=1, features="memory")
    many = group("2", cpus=2, count=9, features="compute", exclusive=True)
    read = iter([0.0, 0.0, 1.0])
    monkeypatch.setattr(purchase_alternatives, "COMPARE_CPU_SECONDS", 0.5)
    monkeypatch.setattr(time, "thread_time", lambda: next(read))

    told = decided(empty_cluster(few, many))[1]

    assert len(told.changes) > 1
    assert [each.compared_jobs for each in told.changes if each.alternatives] == [("2",)]


def test_a_decision_is_carried_out_whose_shapes_cannot_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_given: object) -> None:
        raise RuntimeError("no comparison")

    monkeypatch.setattr(purchase_alternatives, "for_waiting", fail)
    with capture_logs() as logged:
        decision, told = decided(empty_cluster(group("1", cpus=2)))

    assert decision.changes
    assert told is decision
    assert [(each["event"], each["log_level"], each["exc_info"]) for each in logged] == [
        ("alternatives_not_compared", "error", True)
    ]


def test_an_event_without_alternatives_is_written_as_the_release_before_wrote_it() -> None:
    decision, told = decided(empty_cluster(group("1", cpus=2)))

    for each in (decision.fact, DecisionOutput.of(decision).changes[0]):
        assert "alternatives" not in each.model_dump_json()
        assert "compared_jobs" not in each.model_dump_json()
    read = ScaleFact.model_validate_json(told.fact.model_dump_json())
    assert read == told.fact
    assert read.changes[0].compared_jobs == ("1",)
    assert [each.verdict for each in read.changes[0].alternatives][:2] == ["chosen", "by_rule"]
    assert len(CATALOGUE.shapes) > len(read.changes[0].alternatives) == MOST_OF_CHANGE
