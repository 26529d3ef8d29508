"""What events change of the state of `top`, and what is shown of it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import pairwise
from typing import Any

import pytest
from clusterra_cli.live import state as live_state
from clusterra_cli.live.due_reads import MAX_SINGLE_JOBS, DueReads
from clusterra_cli.live.records import Cost, Job, Money, ShapeSize, Worker
from clusterra_cli.live.state import (
    FLEET,
    JOBS,
    MONEY,
    State,
    apply,
    with_fleet,
    with_jobs,
    with_queue,
    without_ended,
)
from clusterra_cli.live.table import cell
from clusterra_cli.live.view import ORDERS, View, cost, fleet, shown
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

BEGAN = datetime(2026, 11, 27, 8, tzinfo=UTC)
SHAPES = {"small": ShapeSize(4, 8192.0, 0, 0.4)}

type Event = dict[str, Any]


def job_event(kind: str, job_id: str, second: int = 0, **more: Any) -> Event:
    state = {"submitted": "PENDING", "requeued": "PENDING", "running": "RUNNING"}.get(kind, kind.upper())
    runs = state != "PENDING"
    return {
        "kind": f"job.{kind}",
        "job_id": job_id,
        "name": f"job {job_id}",
        "user": "ada",
        "uid": 1,
        "state": state,
        "nodes": ["small-a"] if runs else [],
        "cpus": 2 if runs else None,
        "submitted_at": BEGAN.isoformat(),
        "started_at": (BEGAN + timedelta(seconds=second)).isoformat() if runs else None,
        "ended_at": (BEGAN + timedelta(seconds=second + 9)).isoformat() if runs and state != "RUNNING" else None,
        **more,
    }


JOB_IDS = st.sampled_from(["1", "2", "3_1", "3_2"])
EVENTS = st.one_of(
    st.builds(
        job_event,
        st.sampled_from(["submitted", "running", "requeued", "completed", "failed", "cancelled", "timeout"]),
        JOB_IDS,
        st.integers(0, 100),
    ),
    st.builds(
        lambda kind, number: {"kind": f"worker.{kind}", "worker": f"small-{number}", "shape": "small"},
        st.sampled_from(["started", "stopped", "failed", "lost", "priced"]),
        st.integers(0, 3),
    ),
    st.builds(
        lambda kind, number: {"kind": f"node.{kind}", "node": f"small-{number}", "size": {"cpus": 4, "memory_mib": 1}},
        st.sampled_from(["registered", "drained", "removed"]),
        st.integers(0, 3),
    ),
    st.builds(
        lambda count: {"kind": "scale.decided", "changes": [{"shape": "small", "replicas_after": count}]},
        st.integers(0, 9),
    ),
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=8), values, max_size=3),
    max_leaves=8,
)


def after(state: State, events: Sequence[Event]) -> State:
    return reduce(lambda each, event: apply(each, event).state, events, state)


@given(st.lists(EVENTS, max_size=30))
def test_an_event_twice_is_as_once(events: list[Event]) -> None:
    once = after(State(shapes=SHAPES), events)
    twice = after(State(shapes=SHAPES), [event for event in events for _ in range(2)])

    assert twice == once


@given(st.lists(EVENTS, max_size=30), st.data())
def test_a_state_that_is_read_late_ends_as_one_that_saw_every_event(events: list[Event], data: st.DataObject) -> None:
    """The queue is read at some event after the position from which the stream goes on."""
    position = data.draw(st.integers(0, len(events)))
    read_at = data.draw(st.integers(position, len(events)))
    whole = after(State(), events)
    read = with_queue(State(), after(State(), events[:read_at]).jobs.values(), more=False)

    assert after(read, events[position:]).jobs == whole.jobs


@given(st.lists(EVENTS, max_size=30), st.data())
def test_an_old_list_of_nodes_undoes_no_event(events: list[Event], data: st.DataObject) -> None:
    """Of workers whose starts and ends were reported. Names are never used again."""
    starts = [event["worker"] if event["kind"] == "worker.started" else None for event in events]
    unique = [event for place, event in enumerate(events) if not (starts[place] and starts[place] in starts[:place])]
    now = after(State(shapes=SHAPES), unique)
    old = after(State(shapes=SHAPES), unique[: data.draw(st.integers(0, len(unique)))])
    known = set(now.gone) | {name for name, each in now.workers.items() if each.started}
    listed = {name: replace(each, started=False) for name, each in old.workers.items() if name in known}

    assert set(with_fleet(now, listed, {}).workers) == {name for name, each in now.workers.items() if each.started}


@given(st.dictionaries(st.text(max_size=8), ANYTHING, max_size=4), st.sampled_from(["job.running", "worker.started"]))
def test_what_is_no_event_changes_nothing(data: dict[str, Any], kind: str) -> None:
    assert apply(State(), data).state == State()
    assert apply(State(), {**data, "kind": kind}).state == State()


@given(st.lists(st.tuples(st.sampled_from(["submitted", "running", "completed"]), st.integers(1, 60)), max_size=80))
def test_the_queue_is_bounded_and_keeps_what_runs(changes: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_state, "MAX_JOBS", 20)
        state = after(State(), [job_event(kind, str(number)) for kind, number in changes])

    last = {str(number): kind for kind, number in changes}
    assert len(state.jobs) <= 20
    if sum(kind == "running" for kind in last.values()) <= 20 and not state.more:
        assert {name for name, kind in last.items() if kind == "running"} <= set(state.jobs)
    assert state.more or set(state.jobs) == set(last)


def test_what_an_event_does_not_have_is_due() -> None:
    submitted = apply(State(), job_event("submitted", "7"))
    assert submitted.due == {"7"}
    held = apply(submitted.state, {"kind": "action.hold", "job_id": "7", "actor": "ada"})
    assert held.due == {"7"}
    assert held.state == submitted.state
    assert apply(State(), {"kind": "action.hold", "job_id": "7"}).due == set()

    array = with_jobs(State(), [replace(submitted.state.jobs["7"], array_tasks="0-9")])
    assert "7" in apply(array, job_event("running", "7_1")).due
    assert apply(State(workers={"small-a": Worker("small")}), job_event("running", "8")).due == set()
    assert apply(State(), job_event("completed", "8")).due == {FLEET, MONEY}


def test_only_the_jobs_of_the_user_are_kept() -> None:
    state = State(user="grace")

    assert apply(state, job_event("running", "1")).state == state
    assert set(apply(state, job_event("running", "1", user="grace")).state.jobs) == {"1"}


def test_jobs_leave_after_their_end() -> None:
    state = after(State(), [job_event("completed", "1"), job_event("running", "2")])

    assert set(without_ended(state, BEGAN + timedelta(seconds=300)).jobs) == {"1", "2"}
    assert set(without_ended(state, BEGAN + timedelta(seconds=310)).jobs) == {"2"}


def test_what_has_just_ended_comes_before_what_ended_earlier() -> None:
    events = [
        job_event("completed", "1", second=1),
        job_event("cancelled", "2"),
        job_event("completed", "3", second=2),
        job_event("running", "4"),
    ]

    assert [job.job_id for job in shown(after(State(), events), View(), BEGAN)] == ["4", "3", "1", "2"]


def test_a_running_job_costs_its_share_until_the_ledger_has_it() -> None:
    state = State(shapes=SHAPES, workers={"small-a": Worker("small", registered=True, cpus=4)})
    state = after(state, [job_event("running", "1")])
    job = state.jobs["1"]
    hour = BEGAN + timedelta(hours=1)

    assert cost(state, job, hour) == pytest.approx(0.2)
    known = Money(by_job={"1": Cost(0.5, 0.5, hour)})
    assert cost(replace(state, money=known), job, hour + timedelta(hours=1)) == pytest.approx(0.7)
    assert cost(replace(state, workers={}), job, hour) is None
    [row] = fleet(state)
    assert (row.live, row.booting, row.cpus, row.cpus_used, row.usd_per_hour) == (1, 0, 4, 2, 0.4)


@given(st.lists(EVENTS, max_size=30), st.sampled_from(ORDERS), st.booleans())
def test_every_order_shows_the_same_jobs(events: list[Event], order: Any, reverse: bool) -> None:
    state = after(State(shapes=SHAPES), events)
    jobs = shown(state, View(order=order, reverse=reverse), BEGAN + timedelta(hours=1))

    assert {each.job_id for each in jobs} == set(state.jobs)
    only = shown(state, View(states=frozenset({"RUNNING"}), user="ada"), BEGAN)
    assert {each.job_id for each in only} == {each.job_id for each in state.jobs.values() if each.state == "RUNNING"}


@given(st.text(max_size=40), st.integers(1, 20), st.booleans())
def test_a_cell_has_its_width_and_no_control_character(text: str, width: int, right: bool) -> None:
    fitted = cell(text, width, right=right)

    assert cell_len(fitted) == width
    assert not any(character < " " or "\x7f" <= character <= "\x9f" for character in fitted)


@given(
    st.lists(st.tuples(st.floats(0, 2), st.sampled_from([JOBS, FLEET, MONEY, *map(str, range(1, 80))])), max_size=99)
)
def test_reads_are_coalesced_and_bounded(adds: list[tuple[float, str]]) -> None:
    due, now, taken = DueReads(), 0.0, []
    for pause, key in adds:
        due.add(key, now)
        now += pause
        if (found := due.taken(now)) is not None:
            taken.append((now, found))
    while (wait := due.wait(now)) is not None:
        now += wait
        found = due.taken(now)
        assert found is not None
        taken.append((now, found))

    last = {key: at for at, key in [(0.0, ""), *((at, key) for at, key in taken)]}
    assert {key for _, key in adds if key in (JOBS, FLEET, MONEY)} <= set(last)
    for key, spacing in ((JOBS, 3.0), (FLEET, 1.0), (MONEY, 5.0)):
        times = [at for at, each in taken if each == key]
        assert all(later - earlier >= spacing - 1e-6 for earlier, later in pairwise(times))


def test_many_jobs_that_are_due_become_one_read_of_the_queue() -> None:
    due = DueReads()
    for number in range(MAX_SINGLE_JOBS + 1):
        due.add(str(number + 1), 0.0)
    due.add("999", 0.0)

    assert due.taken(0.1) is None
    assert [due.taken(1.0), due.taken(1.0)] == [JOBS, None]
    assert due.wait(1.0) is None


def test_a_hostile_name_is_a_text() -> None:
    job = Job("1", "[red]\x1b[2J", "ada", "PENDING", "", (), 1, 1, BEGAN, None, None, None)

    assert cell(job.name, 20).rstrip() == "[red]\\x1b[2J"
