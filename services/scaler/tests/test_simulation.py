"""Simulations of policies, each from the inputs of a real decision."""

import asyncio
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.registry import ScalingPolicy
from clusterra_contracts.rpc.simulate import NAMED_GROUPS, SimulatePolicy, Simulation
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_scaler.decisions.lanes import DecisionLanes
from clusterra_scaler.decisions.log import decision_log
from clusterra_scaler.decisions.record import DecisionInputs, DecisionOutput, DecisionRecord
from clusterra_scaler.explain.estimate import EstimateInputs
from clusterra_scaler.explain.estimate_service import MAX_WAITING, EstimateService
from clusterra_scaler.explain.simulation import simulate, simulate_past
from clusterra_scaler.planner.decide import decide
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.placement.plan import AT_QUOTA
from estimate_examples import inputs_of
from fleet_examples import START, edge, group, node, observation, running, snapshot, state, target, worker
from hypothesis import given
from hypothesis import strategies as st

SUBJECT = subjects.parse("scaler.acme.c1.simulate")


def request(view: Observation, **changes: Any) -> SimulatePolicy:
    return SimulatePolicy(policy=view.binding.policy.model_copy(update=changes))


def simulated(inputs: EstimateInputs, **changes: Any) -> Simulation:
    return simulate(request(inputs.observation, **changes), inputs)


def undecided(view: Observation) -> EstimateInputs:
    """The inputs of a cluster whose jobs have just come: nothing is ordered for them yet."""
    return replace(inputs_of(view), state=FleetState.initial(START))


FOUR = observation(snapshot(tuple(group(str(n), cpus=2) for n in range(1, 5))), max_workers=4)


def test_fewer_workers_leave_jobs_waiting() -> None:
    answer = simulated(undecided(FOUR), max_workers=1)

    present, changed = answer.present, answer.changed
    assert (present.placed, present.waiting, present.waits) == (4, 0, ())
    assert present.usd_per_hour == pytest.approx(sum(each.usd_per_hour or 0 for each in present.shapes))
    assert changed.placed + changed.waiting == 4
    assert changed.waiting > 0
    assert {each.reason for each in changed.waits} == {AT_QUOTA}
    assert sum(each.workers for each in changed.shapes) <= 1
    assert changed.usd_per_hour < present.usd_per_hour


def test_what_is_ordered_already_is_not_undone_by_a_lower_limit() -> None:
    answer = simulated(inputs_of(FOUR), max_workers=1)

    assert answer.changed.shapes == answer.present.shapes
    assert answer.changed.waiting == 0


def test_a_higher_limit_places_the_jobs_that_wait_for_the_quota() -> None:
    full = observation(FOUR.snapshot, max_workers=0)

    answer = simulated(inputs_of(full), max_workers=4)

    assert (answer.present.placed, answer.present.waiting) == (0, 4)
    assert (answer.changed.placed, answer.changed.waiting) == (4, 0)


def test_a_cap_on_the_costs_and_shapes_that_are_not_allowed() -> None:
    inputs = undecided(observation(snapshot((group("1", cpus=2),))))
    (bought,) = simulated(inputs).present.shapes
    others = {shape.name: 0 for shape in inputs.observation.binding.catalogue.shapes if shape.name != "memory-xs"}

    capped = simulated(inputs, usd_per_hour=0.01).changed
    elsewhere = simulated(inputs, most=others, name="packing").changed

    assert (bought.shape, bought.workers) == ("compute-xs", 1)
    assert (capped.shapes, capped.waiting) == ((), 1)
    assert [(each.shape, each.new) for each in elsewhere.shapes] == [("memory-xs", 1)]
    assert elsewhere.placed == 1


def test_a_shorter_keep_alive_drains_the_idle_worker() -> None:
    idle = observation(
        snapshot(nodes=(node("compute-xs-a", idle_for=100.0),)), edge(worker("compute-xs-a")), idle_seconds=150.0
    )

    answer = simulated(inputs_of(idle, state(target("compute-xs", 1))), idle_seconds=50.0)

    (kept,), (drained,) = answer.present.shapes, answer.changed.shapes
    assert (kept.workers, kept.drains, kept.draining) == (1, 0, ())
    assert (drained.workers, drained.drains, drained.draining) == (1, 1, ("compute-xs-a",))


def test_a_warm_pool_is_bought() -> None:
    inputs = inputs_of(observation(snapshot()))

    answer = simulated(inputs, warm={"general-small": 3})

    assert answer.present.shapes == ()
    assert [(each.shape, each.workers, each.new) for each in answer.changed.shapes] == [("general-small", 3, 3)]


def test_a_paused_cluster_and_shadow_mode_are_told() -> None:
    paused = FOUR.binding.model_copy(update={"state": "paused"})

    answer = simulated(inputs_of(Observation(paused, FOUR.snapshot, FOUR.edge, FOUR.now), shadow=True), max_workers=9)

    assert (answer.paused, answer.shadow) == (True, True)
    assert answer.changed.shapes == ()


def test_of_many_groups_that_wait_the_largest_are_told() -> None:
    jobs = tuple(group(str(n), cpus=n % 31 + 1, memory_per_node_mib=n) for n in range(1, NAMED_GROUPS + 20))

    changed = simulated(undecided(observation(snapshot(jobs))), max_workers=0).changed

    assert len(changed.waits) == NAMED_GROUPS
    assert changed.waiting == len(jobs)


JOBS = st.lists(
    st.builds(
        lambda cpus, memory, count: group(cpus=cpus, memory_per_node_mib=memory, count=count),
        st.integers(1, 40),
        st.sampled_from((1024, 9000, 70000, 900000)),
        st.integers(1, 6),
    ),
    max_size=5,
)


@given(JOBS, st.sampled_from(("family", "packing")), st.sampled_from(("family", "packing")), st.integers(0, 6))
def test_a_simulation_is_what_the_planner_decides_and_changes_nothing(
    queue: list[PendingJobs], name: str, other: str, most: int
) -> None:
    pending = tuple(each.model_copy(update={"job_ids": (str(i),)}) for i, each in enumerate(queue, start=1))
    view = observation(snapshot(pending), name=name)
    inputs = undecided(view)
    before = repr(inputs)

    answer = simulated(inputs, name=other, max_workers=most)

    assert repr(inputs) == before
    assert answer == simulated(inputs, name=other, max_workers=most)
    again = decide(view, inputs.state, inputs.observation_history, inputs.run_history)
    assert {each.shape: each.workers for each in answer.present.shapes} == {
        each.shape: each.replicas for each in again.state.targets if each.replicas
    }
    assert simulated(inputs).changed == answer.present
    assert answer.changed.placed + answer.changed.waiting == sum(each.count for each in pending)
    assert sum(each.workers for each in answer.changed.shapes) <= most


def recorded(view: Observation, generation: int) -> DecisionRecord:
    """The record of the decision on an observation that made a desired state."""
    before = FleetState.initial(START).model_copy(update={"generation": generation - 1})
    made_from = DecisionInputs(view, before, ObservationHistory())
    return DecisionRecord(SUBJECT.ref, False, made_from, DecisionOutput.of(made_from.decide()))


@given(JOBS, st.sampled_from(("family", "packing")), st.integers(0, 6))
def test_from_an_earlier_queue_the_present_decision_is_the_one_that_was_made(
    queue: list[PendingJobs], name: str, most: int
) -> None:
    pending = tuple(each.model_copy(update={"job_ids": (str(i),)}) for i, each in enumerate(queue, start=1))
    record = recorded(observation(snapshot(pending), name=name), 7)
    asked = request(observation(snapshot(), name="family", idle_seconds=9.0), max_workers=most)

    answer = simulate_past(asked.model_copy(update={"generation": 7, "fields": ("max_workers", "newer")}), record)

    assert {each.shape: each.workers for each in answer.present.shapes} == {
        each.shape: each.replicas for each in record.decided.state.targets if each.replicas
    }
    # Only the field that is tried is otherwise.
    tried = simulated(undecided(observation(snapshot(pending), name=name)), max_workers=most)
    assert answer.changed == tried.changed
    assert (answer.generation, answer.shadow) == (record.decided.state.generation, False)
    assert (answer.as_of, answer.snapshot_generation) == (tried.as_of, tried.snapshot_generation)


async def test_an_earlier_queue_is_read_from_the_decision_log(tmp_path: Path) -> None:
    asked = request(FOUR, max_workers=1).model_copy(update={"generation": 5, "fields": ("max_workers",)})
    with decision_log(tmp_path, 1024 * 1024) as log:
        assert log is not None
        log.append(recorded(FOUR, 5))
    with DecisionLanes() as lanes, decision_log(tmp_path, 1024 * 1024) as log:
        # It needs no decision of this process.
        service = EstimateService(SUBJECT.ref, lanes, asyncio.Lock(), log, lambda: FOUR.now)
        answer = await service.simulate(SUBJECT, asked)
        refused = []
        for other in (service, EstimateService(SUBJECT.ref, lanes, asyncio.Lock())):
            with pytest.raises(RpcFailed) as failed:
                await other.simulate(SUBJECT, asked.model_copy(update={"generation": 6}))
            refused.append(failed.value.error)

    assert (answer.generation, answer.present.placed) == (5, 4)
    assert answer.changed.waiting > 0
    assert [(each.kind, each.hint) for each in refused] == [
        ("not_found", "simulate with the current queue instead")
    ] * 2


async def test_a_decision_for_an_earlier_cluster_of_the_same_name_is_not_told(tmp_path: Path) -> None:
    asked = request(FOUR, max_workers=1).model_copy(update={"generation": 5, "fields": ("max_workers",)})
    with decision_log(tmp_path, 1024 * 1024) as log:
        assert log is not None
        log.append(recorded(FOUR, 5))
    with DecisionLanes() as lanes, decision_log(tmp_path, 1024 * 1024) as log:
        later = FOUR.now + timedelta(seconds=1)
        service = EstimateService(SUBJECT.ref, lanes, asyncio.Lock(), log, lambda: later)

        with pytest.raises(RpcFailed) as failed:
            await service.simulate(SUBJECT, asked)

    assert failed.value.error.kind == "not_found"


async def test_simulations_wait_with_the_estimates() -> None:
    deciding = asyncio.Lock()
    with DecisionLanes() as lanes:
        service = EstimateService(SUBJECT.ref, lanes, deciding)
        with pytest.raises(RpcFailed) as early:
            await service.simulate(SUBJECT, request(FOUR))
        service.on_decision(inputs_of(FOUR))
        async with deciding:
            waiting = [asyncio.create_task(service.simulate(SUBJECT, request(FOUR))) for _ in range(MAX_WAITING)]
            await asyncio.sleep(0)  # all of them begin
            with pytest.raises(RpcFailed) as refused:
                await service.simulate(SUBJECT, request(FOUR))
        answers = await asyncio.gather(*waiting)

    assert early.value.error.kind == refused.value.error.kind == "unavailable"
    assert {each.present.placed for each in answers} == {4}


async def test_a_large_queue_is_simulated_on_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def noted(*given: Any) -> Simulation:
        threads.append(threading.current_thread())
        return simulate(*given)

    monkeypatch.setattr("clusterra_scaler.explain.estimate_service.simulate", noted)
    with DecisionLanes() as lanes:
        for count in (1, 1000):
            view = observation(snapshot((group(count=count),), runs=(running("9", "compute-xs-a"),)))
            service = EstimateService(SUBJECT.ref, lanes, asyncio.Lock())
            service.on_decision(inputs_of(view))
            await service.simulate(SUBJECT, SimulatePolicy(policy=ScalingPolicy()))

    assert [thread is threading.main_thread() for thread in threads] == [True, False]
