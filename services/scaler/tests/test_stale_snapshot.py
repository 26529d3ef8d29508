"""A snapshot that is too old decides nothing: stale is unknown."""

from dataclasses import replace
from datetime import timedelta

from clusterra_contracts.heartbeat import WorkerPhase
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.rpc.slurm_nodes import Drain
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.snapshot_age import REMEMBERED, SnapshotAge
from clusterra_scaler.planner.observed.state import FleetState
from fleet_examples import NOW, OUR_DRAIN, at, edge, group, node, observation, running, snapshot, state, target, worker
from hypothesis import given
from hypothesis import strategies as st

NAME = "compute-xs-1"
VALID_SECONDS = 16.0


def taken(shot: QueueSnapshot, seconds_ago: float) -> QueueSnapshot:
    return shot.model_copy(update={"taken_at": at(NOW - seconds_ago), "valid_seconds": VALID_SECONDS})


def decide_on(view: Observation, before: FleetState) -> Decision:
    return decide(view, before, ObservationHistory())


def test_a_worker_that_was_idle_in_an_old_snapshot_is_not_drained() -> None:
    """The heartbeat is fresh, and the worker may have got a job since."""
    fleet = state(target("compute-xs", 1), generation=1)
    shot = snapshot((), (), (node(NAME, idle_for=500),))

    assert decide_on(observation(taken(shot, 15), edge(worker(NAME))), fleet).actions != ()
    assert decide_on(observation(taken(shot, 17), edge(worker(NAME))), fleet).actions == ()


def test_the_told_age_counts_and_not_the_clock_of_the_proxy() -> None:
    fleet = state(target("compute-xs", 1), generation=1)
    shot = snapshot((), (), (node(NAME, idle_for=500),))
    behind = observation(taken(shot, 3600), edge(worker(NAME)))
    ahead = observation(taken(shot, -3600), edge(worker(NAME)))

    assert decide_on(replace(behind, snapshot_age_seconds=1.0), fleet).actions != ()
    assert decide_on(replace(ahead, snapshot_age_seconds=17.0), fleet).actions == ()


names = st.sampled_from([f"{shape}-{number}" for shape in ("compute-xs", "general-small") for number in range(3)])
drains = st.dictionaries(names, st.floats(0, NOW).map(at), max_size=3)
phases: st.SearchStrategy[WorkerPhase] = st.sampled_from(["booting", "running"])


@given(
    present=st.dictionaries(names, phases, max_size=6),
    records=st.dictionaries(names, st.sampled_from([("IDLE",), ("IDLE", "DRAIN"), ("MIXED",), ("DOWN",)]), max_size=6),
    waiting=st.integers(0, 5),
    busy=st.sets(names, max_size=3),
    drained=drains,
    undrained=drains,
    age_seconds=st.floats(VALID_SECONDS + 0.001, 1e6),
)
def test_nothing_is_ever_decided_from_an_old_snapshot(
    present: dict[str, WorkerPhase],
    records: dict[str, tuple[str, ...]],
    waiting: int,
    busy: set[str],
    drained: dict[str, object],
    undrained: dict[str, object],
    age_seconds: float,
) -> None:
    before = state(
        target("compute-xs", 2), target("general-small", 1), generation=4, drains=drained, undrains=undrained
    )
    shot = snapshot(
        tuple(group(str(number), cpus=2) for number in range(1, waiting + 1)),
        tuple(running(str(100 + number), name) for number, name in enumerate(sorted(busy))),
        tuple(node(name, *states, reason=OUR_DRAIN) for name, states in records.items()),
    )
    history = ObservationHistory()
    view = observation(taken(shot, age_seconds), edge(*(worker(*each) for each in present.items())), idle_seconds=0)

    decision = decide(view, before, history)

    assert (decision.state, decision.changes, decision.actions, decision.plan) == (before, (), (), None)
    assert decision.observation_history == history


def test_idle_time_starts_again_after_a_time_without_snapshots() -> None:
    """The node may have worked meanwhile, where Slurm does not tell since when it is idle."""
    fleet = state(target("compute-xs", 1), generation=1)
    record = node(NAME, idle_for=None)

    def look(second: float, history: ObservationHistory) -> Decision:
        shot = snapshot((), (), (record,), taken=second).model_copy(update={"valid_seconds": VALID_SECONDS})
        return decide(observation(shot, edge(worker(NAME), heard=second), now=second, idle_seconds=10), fleet, history)

    first = look(NOW, ObservationHistory())
    after_silence = look(NOW + 60, first.observation_history)
    soon = look(NOW + 69, after_silence.observation_history)
    late = look(NOW + 71, soon.observation_history)

    assert (after_silence.actions, soon.actions) == ((), ())
    assert [type(action) for action in late.actions] == [Drain]


def published(read_seconds: float, second: float, skew: float = 0.0) -> QueueSnapshot:
    """A snapshot that is published at this second; the proxy's clock is `skew` seconds ahead."""
    at_publication = at(second + skew)
    shot = snapshot((), (), (), taken=second)
    taken_at = at_publication - timedelta(seconds=read_seconds)
    return shot.model_copy(update={"taken_at": taken_at, "published_at": at_publication})


def arrivals(age: SnapshotAge, count: int, begin: float, skew: float = 0.0, transit: float = 0.1) -> SnapshotAge:
    """The age after snapshots, one a second, each after a read of half a second."""
    for number in range(count):
        second = begin + number
        age = age.after(published(0.5, second, skew), at(second + transit), second + transit)
    return age


@given(st.floats(-1e6, 1e6), st.floats(0.0, 1e4))
def test_a_constant_difference_of_the_clocks_has_no_effect(skew: float, silence: float) -> None:
    age = arrivals(SnapshotAge(), 3, NOW, skew)

    assert abs(age.seconds(NOW + 2.1 + silence) - (0.5 + silence)) < 1e-3


@given(st.floats(0.0, 1e5))
def test_a_message_that_is_replayed_at_the_start_is_as_old_as_it_says(lay: float) -> None:
    age = SnapshotAge().after(published(0.5, NOW), at(NOW + lay), 7.0)

    assert abs(age.seconds(7.0) - (0.5 + lay)) < 1e-3


@given(st.floats(-1e6, 1e6), st.floats(1.0, 1e5))
def test_a_message_that_was_delayed_later_is_as_old_as_its_delay(skew: float, delay: float) -> None:
    age = arrivals(SnapshotAge(), 5, NOW, skew)

    late = age.after(published(0.5, NOW + 5, skew), at(NOW + 5.1 + delay), NOW + 5.1 + delay)

    assert abs(late.seconds(NOW + 5.1 + delay) - (0.5 + delay)) < 1e-3


@given(st.floats(-3600, 3600))
def test_a_step_of_the_proxys_clock_is_forgotten_after_some_messages(step: float) -> None:
    age = arrivals(arrivals(SnapshotAge(), 5, NOW), REMEMBERED, NOW + 5, step)

    assert age.seconds(NOW + 5 + REMEMBERED) < 2.0


def test_a_step_of_the_scalers_own_clock_does_not_age_a_snapshot() -> None:
    age = arrivals(SnapshotAge(), 3, NOW)

    assert 0.5 < age.seconds(NOW + 3.0) < 1.5


def test_snapshots_of_earlier_releases_have_an_age_too() -> None:
    shot = snapshot((), (), (), taken=NOW)
    assert shot.published_at is None

    age = SnapshotAge().after(shot, at(NOW + 3), 10.0)

    assert age.seconds(12.0) == 5.0
