"""Workers that Slurm itself has drained are removed once they run nothing. An operator's drains are left alone."""

import pytest
from clusterra_contracts.queue import NodeState, RunningJob
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.slurm_drains import REASONS
from fleet_examples import NOW, at, edge, group, node, observation, running, snapshot, state, target, worker

NAME = "compute-xs-1"
NAMES = tuple(f"compute-xs-{number}" for number in range(1, 8))


def drained(reason: str, *states: str, name: str = NAME, used: int = 0) -> NodeState:
    return node(name, *(states or ("IDLE",)), "DRAIN", reason=reason, used=used)


def decide_on(*records: NodeState, runs: tuple[RunningJob, ...] = (), pending: bool = False) -> Decision:
    names = [record.name for record in records]
    shot = snapshot((group("9"),) if pending else (), runs, records)
    before = state(target("compute-xs", len(names)), generation=1)
    view = observation(shot, edge(*map(worker, names)), moves_per_minute=5)
    return decide(view, before, ObservationHistory())


@pytest.mark.parametrize("reason", REASONS)
def test_a_worker_that_slurm_drained_is_removed_without_another_drain(reason: str) -> None:
    decision = decide_on(drained(reason))

    assert decision.state.target("compute-xs") == target("compute-xs", 0, NAME)
    assert decision.changes[0].victims == (NAME,)
    assert decision.changes[0].reason == f"{NAME} drained by Slurm ({reason}) and idle"
    assert decision.actions == ()


def test_a_job_that_waits_gets_another_worker() -> None:
    decision = decide_on(drained("Kill task failed"), pending=True)

    assert decision.state.target("compute-xs") == target("compute-xs", 1, NAME)


@pytest.mark.parametrize(
    ("record", "runs"),
    [
        (drained("Epilog error", "MIXED", used=1), ()),
        (drained("Epilog error", "IDLE", "COMPLETING"), ()),
        (drained("Epilog error"), (running("7", NAME),)),
    ],
)
def test_it_keeps_its_jobs(record: NodeState, runs: tuple[RunningJob, ...]) -> None:
    assert not decide_on(record, runs=runs).state.victims


@pytest.mark.parametrize("reason", ["disk is broken", "kept for a look: Kill task failed", ""])
def test_the_drain_of_an_operator_is_respected(reason: str) -> None:
    decision = decide_on(drained(reason))

    assert not decision.changes
    assert not decision.actions


def test_at_most_as_many_are_removed_in_a_minute_as_drains_may_begin() -> None:
    records = [drained("Prolog error", name=name) for name in NAMES]

    first = decide_on(*records)
    view = observation(snapshot((), (), tuple(records)), edge(*map(worker, NAMES)), now=NOW + 10, moves_per_minute=5)
    soon = decide(view, first.state, first.observation_history)
    later_shot = snapshot((), (), tuple(records), taken=NOW + 61)
    later_view = observation(later_shot, edge(*map(worker, NAMES), heard=NOW + 61), now=NOW + 61, moves_per_minute=5)
    later = decide(later_view, soon.state, soon.observation_history)

    assert first.state.victims == soon.state.victims == set(NAMES[:5])
    assert first.state.moves == dict.fromkeys(NAMES[:5], at(NOW))
    assert later.state.victims == set(NAMES)
