"""Estimates of jobs that are not submitted, each from the inputs of a real decision."""

import asyncio
import threading
from typing import Any

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.rpc.estimate import Estimate, EstimatedWorkers, EstimateJob
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_scaler.decisions.lanes import DecisionLanes
from clusterra_scaler.explain.estimate import PLANNED_TASKS, estimate
from clusterra_scaler.explain.estimate_service import MAX_WAITING, EstimateService
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.state import FleetState
from estimate_examples import BOOT_SECONDS, inputs_of
from explanation_examples import explained
from fleet_examples import (
    CATALOGUE,
    NOW,
    WITH_GPUS,
    at,
    edge,
    group,
    node,
    observation,
    running,
    snapshot,
    state,
    target,
    worker,
)
from hypothesis import given
from hypothesis import strategies as st


def estimated(
    job: PendingJobs, view: Observation, before: FleetState | None = None, *, tasks: int | None = None, **more: Any
) -> Estimate:
    return estimate(EstimateJob(job=job, tasks=tasks or job.count), inputs_of(view, before, **more), view.now)


EMPTY = observation(snapshot())


def test_a_job_in_an_empty_cluster_waits_for_a_boot() -> None:
    answer = estimated(group(cpus=2, time_limit_seconds=7200), EMPTY)

    assert (answer.wait, answer.cause) == ("boot", None)
    assert answer.text == "It would wait until workers of the shape compute-xs have started."
    assert answer.workers == (EstimatedWorkers(kind="new", shape="compute-xs", count=1),)
    assert answer.expected_start == answer.expected_last_start == at(NOW + BOOT_SECONDS)
    assert answer.usd_per_hour == pytest.approx(0.08)
    assert answer.limit_seconds == 7200


def test_a_job_that_a_free_worker_has_capacity_for_starts_now() -> None:
    view = observation(snapshot(nodes=(node("compute-small-a"),)), edge(worker("compute-small-a")))

    answer = estimated(group(), view, state(target("compute-small", 1)))

    assert answer.wait == "nothing"
    assert answer.expected_start == at(NOW)
    assert answer.workers == (EstimatedWorkers(kind="node", shape="compute-small", count=1),)
    assert answer.usd_per_hour == pytest.approx(0.04)


def test_a_job_counts_behind_those_that_wait_already() -> None:
    waiting = group("1", cpus=4, memory_per_node_mib=4096)
    view = observation(snapshot((waiting,), nodes=(node("compute-small-a"),)), edge(worker("compute-small-a")))

    answer = estimated(group(cpus=2), view, state(target("compute-small", 1)))

    assert answer.wait == "boot"


def test_a_job_waits_for_the_quota_and_is_priced_nevertheless() -> None:
    full = observation(
        snapshot(
            runs=(running("1", "compute-xs-a", cpus=2),),
            nodes=(node("compute-xs-a", used=2),),
        ),
        edge(worker("compute-xs-a")),
        max_workers=1,
    )

    answer = estimated(group(cpus=2), full, state(target("compute-xs", 1)))

    assert answer.wait == "quota"
    assert "its limit on workers" in answer.text
    assert (answer.expected_start, answer.expected_last_start) == (None, None)
    assert answer.usd_per_hour == pytest.approx(0.08)
    assert [(each.shape, each.count) for each in answer.workers] == [("compute-xs", 1)]


def test_no_shape_would_do() -> None:
    answer = estimated(group(gres="node/gpu:a100=1"), observation(snapshot(), catalogue=WITH_GPUS))

    assert (answer.wait, answer.usd_per_hour, answer.workers) == ("shape", None, ())
    assert answer.text == "It would get no worker now: no shape has gpu:a100:1."


def test_a_paused_cluster_buys_nothing() -> None:
    paused = EMPTY.binding.model_copy(update={"state": "paused"})
    view = Observation(paused, EMPTY.snapshot, EMPTY.edge, EMPTY.now)

    answer = estimated(group(cpus=2), view)

    assert (answer.wait, answer.expected_start) == ("paused", None)
    assert answer.usd_per_hour == pytest.approx(0.08)


@pytest.mark.parametrize(
    ("asked", "cause", "text"),
    [
        ({"held": True, "reason": "JobHeldUser"}, "hold", "It is held by its owner, who can release it."),
        ({"dependent": True, "reason": "Dependency"}, "dependency", "It waits for jobs that it depends on."),
        ({"partition": "debug"}, "partition", "Workers are bought only for the partition main, not for debug."),
    ],
)
def test_a_job_that_waits_for_something_else(asked: dict[str, Any], cause: str, text: str) -> None:
    answer = estimated(group(cpus=2, **asked), EMPTY)

    assert (answer.wait, answer.cause, answer.text) == ("cause", cause, text)
    assert answer.expected_start is None
    assert (answer.usd_per_hour is None) == (cause == "partition")


def test_a_job_that_may_begin_later_starts_then() -> None:
    answer = estimated(group(reason="BeginTime", begins_at=at(NOW + 600)), EMPTY)

    assert (answer.wait, answer.cause) == ("cause", "time")
    assert answer.expected_start == at(NOW + 600)


def test_an_array_is_estimated_by_task_and_as_a_whole() -> None:
    view = observation(snapshot(nodes=(node("compute-xs-a"),)), edge(worker("compute-xs-a")))

    answer = estimated(group(cpus=2, count=3), view, state(target("compute-xs", 1)))

    assert (answer.tasks, answer.wait) == (3, "boot")
    assert (answer.expected_start, answer.expected_last_start) == (at(NOW), at(NOW + BOOT_SECONDS))
    assert answer.usd_per_hour == pytest.approx(0.08)
    assert sum(each.count or 0 for each in answer.workers if each.kind == "new") == 2


def test_the_last_task_of_a_throttled_array_starts_at_an_unknown_time() -> None:
    answer = estimated(group(cpus=2, count=2), EMPTY, tasks=10)

    assert answer.expected_start == at(NOW + BOOT_SECONDS)
    assert answer.expected_last_start is None


def test_a_huge_array_is_planned_in_part() -> None:
    answer = estimated(group(count=50 * PLANNED_TASKS), EMPTY)

    assert answer.tasks == 50 * PLANNED_TASKS
    assert answer.expected_last_start is None


def test_a_job_waits_also_until_workers_are_bought_for_several_jobs_together() -> None:
    gathering = observation(snapshot(), name="packing", gather_seconds=30.0)

    answer = estimated(group(cpus=2, first_submitted_at=gathering.now), gathering)

    assert answer.wait == "boot"
    assert answer.expected_start == at(NOW + 30 + BOOT_SECONDS)


async def test_only_a_few_estimates_of_a_cluster_wait_for_a_decision() -> None:
    deciding, asked = asyncio.Lock(), EstimateJob(job=group(cpus=2))
    subject = subjects.parse("scaler.acme.c1.estimate")
    with DecisionLanes() as lanes:
        service = EstimateService(subject.ref, lanes, deciding)
        service.on_decision(inputs_of(EMPTY))
        async with deciding:
            waiting = [asyncio.create_task(service.answer(subject, asked)) for _ in range(MAX_WAITING)]
            await asyncio.sleep(0)  # all of them begin
            with pytest.raises(RpcFailed) as refused:
                await service.answer(subject, asked)
        answers = await asyncio.gather(*waiting)
        later = await service.answer(subject, asked)

    assert refused.value.error.kind == "unavailable"
    assert {each.wait for each in (*answers, later)} == {"boot"}


async def test_a_decision_waits_for_one_estimate_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    done = 0

    def counted(*given: Any) -> Estimate:
        nonlocal done
        done += 1
        return estimate(*given)

    monkeypatch.setattr("clusterra_scaler.explain.estimate_service.estimate", counted)
    deciding, subject = asyncio.Lock(), subjects.parse("scaler.acme.c1.estimate")
    with DecisionLanes() as lanes:
        service = EstimateService(subject.ref, lanes, deciding)
        service.on_decision(inputs_of(EMPTY))
        async with deciding:
            waiting = [
                asyncio.create_task(service.answer(subject, EstimateJob(job=group(cpus=2)))) for _ in range(MAX_WAITING)
            ]
            await asyncio.sleep(0)  # all of them begin
        async with deciding:
            before_the_decision = done
        await asyncio.gather(*waiting)

    assert before_the_decision <= 1
    assert done == MAX_WAITING


async def test_an_array_of_many_nodes_holds_up_no_other_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def noted(*given: Any) -> Estimate:
        threads.append(threading.current_thread())
        return estimate(*given)

    monkeypatch.setattr("clusterra_scaler.explain.estimate_service.estimate", noted)
    subject = subjects.parse("scaler.acme.c1.estimate")
    with DecisionLanes() as lanes:
        service = EstimateService(subject.ref, lanes, asyncio.Lock())
        service.on_decision(inputs_of(EMPTY))

        for count in (1, PLANNED_TASKS):
            await service.answer(subject, EstimateJob(job=group(cpus=10, nodes=10, count=count), tasks=count))

    assert [thread is threading.main_thread() for thread in threads] == [True, False]


def test_shadow_mode_is_told() -> None:
    assert "shadow mode" in estimated(group(), EMPTY, shadow=True).text


JOBS = st.builds(
    lambda cpus, memory, nodes, count, exclusive: group(
        cpus=cpus * nodes, memory_per_node_mib=memory, nodes=nodes, max_nodes=nodes, count=count, exclusive=exclusive
    ),
    st.integers(1, 40),
    st.sampled_from((0, 1024, 9000, 70000, 900000)),
    st.integers(1, 4),
    st.integers(1, 6),
    st.booleans(),
)
POLICIES = st.sampled_from(("family", "packing"))


@given(JOBS, st.lists(JOBS, max_size=4), st.integers(0, 6), POLICIES)
def test_every_job_gets_an_estimate_and_changes_nothing(
    job: PendingJobs, queue: list[PendingJobs], most: int, policy: str
) -> None:
    pending = tuple(each.model_copy(update={"job_ids": (str(i),)}) for i, each in enumerate(queue, start=1))
    view = observation(snapshot(pending), max_workers=most, name=policy)
    given_inputs = inputs_of(view)
    before = repr(given_inputs)

    answer = estimate(EstimateJob(job=job, tasks=job.count), given_inputs, view.now)

    assert repr(given_inputs) == before
    assert answer == estimate(EstimateJob(job=job, tasks=job.count), given_inputs, view.now)
    assert answer.wait != "nothing" or answer.expected_start == view.now
    if answer.expected_start is not None:
        assert answer.expected_start >= view.now
        assert answer.usd_per_hour is not None
    if answer.usd_per_hour is not None:
        dearest = max(shape.usd_per_hour for shape in CATALOGUE.shapes)
        assert 0 < answer.usd_per_hour <= dearest * answer.nodes + 1e-9


@given(JOBS.filter(lambda job: job.count == 1), POLICIES)
def test_the_estimate_is_what_the_planner_does_after_the_submit(job: PendingJobs, policy: str) -> None:
    answer = estimated(job, observation(snapshot(), name=policy))
    submitted = explained("1", observation(snapshot((job,)), name=policy))

    assert answer.usd_per_hour == submitted.usd_per_hour
    assert sorted(each.shape or "" for each in answer.workers) == sorted(
        place.shape or "" for place in submitted.places
    )
    assert all(each.kind == "new" and each.count for each in answer.workers)


def test_the_components_of_a_job_are_estimated_together() -> None:
    first = group(cpus=2, time_limit_seconds=3600)
    second = group(cpus=4, features="memory", time_limit_seconds=7200)
    components = [
        each.model_copy(update={"het_job_id": "1", "het_offset": n}) for n, each in enumerate((first, second))
    ]
    given_inputs = inputs_of(EMPTY)

    answer = estimate(EstimateJob(job=components[0], components=(components[1],)), given_inputs, EMPTY.now)

    # The node of each component is large enough for the other one.
    alone = [
        estimate(EstimateJob(job=each), given_inputs, EMPTY.now)
        for each in (first.model_copy(update={"cpus": 4}), second)
    ]
    costs = [each.usd_per_hour for each in alone]
    assert (answer.wait, answer.nodes, answer.limit_seconds) == ("boot", 2, 7200)
    assert {(each.shape, each.count) for each in answer.workers} == {
        (each.shape, each.count) for one in alone for each in one.workers
    }
    assert costs[0] is not None
    assert costs[1] is not None
    assert answer.usd_per_hour == pytest.approx(costs[0] + costs[1])


def test_a_component_that_waits_for_something_else_keeps_the_others_waiting() -> None:
    first = group(cpus=2, het_job_id="1")
    held = group(cpus=2, het_job_id="1", het_offset=1, held=True, reason="JobHeldUser")

    answer = estimate(EstimateJob(job=first, components=(held,)), inputs_of(EMPTY), EMPTY.now)

    assert (answer.wait, answer.cause, answer.expected_start) == ("cause", "hold", None)
