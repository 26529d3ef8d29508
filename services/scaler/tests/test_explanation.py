"""Explanations of pending and running jobs, each from a decision that was really made."""

import pytest
from clusterra_contracts.shape_fit import new_workers
from clusterra_scaler.explain.explanation import explanation
from clusterra_scaler.explain.forecast import Forecast
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.placement.plan import Place
from clusterra_scaler.planner.requests.demand import demand_of
from explanation_examples import ADA, BOB, LATENCY, empty_cluster, explained, inputs_of
from fleet_examples import (
    NOW,
    OUR_DRAIN,
    START,
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

ORDERED = "It waits for a worker of the shape {}, which has been ordered but has not started yet."


def test_an_ordered_worker() -> None:
    answer = explained("1", empty_cluster(group("1", cpus=1)))

    assert answer.text == ORDERED.format("compute-xs")
    (place,) = answer.places
    assert (place.kind, place.worker, place.shape) == ("ordered", None, "compute-xs")
    (bought,) = answer.bought
    assert (bought.shape, bought.workers, bought.generation, bought.decided_at) == ("compute-xs", 1, 1, at(NOW))
    assert bought.reason == "1 more for pending job 1"
    assert answer.expected_start == at(NOW + 60)
    assert answer.usd_per_hour == pytest.approx(0.04)
    assert (answer.generation, answer.snapshot_generation, answer.as_of) == (1, 1001, at(NOW))


def test_a_booting_worker() -> None:
    before = state(target("compute-xs", 1), generation=1)
    view = observation(snapshot((group("1"),)), edge(worker("compute-xs-a", "booting", started=NOW - 20)))

    answer = explained("1", view, before)

    assert answer.text == "It waits for the worker compute-xs-a, which has been booting for 20 s."
    assert (answer.places[0].kind, answer.places[0].worker) == ("booting", "compute-xs-a")
    assert answer.expected_start == at(NOW + 40)
    assert answer.bought == ()


def test_the_expected_start_is_not_in_the_past() -> None:
    before = state(target("compute-xs", 1), generation=1)
    late = observation(snapshot((group("1"),)), edge(worker("compute-xs-a", "booting", started=NOW - 200)))

    assert explained("1", late, before).expected_start == at(NOW)


def test_a_node_with_free_capacity() -> None:
    job = group("1", reason="Priority")
    view = observation(snapshot((job,), nodes=(node("compute-xs-a"),)), edge(worker("compute-xs-a")))

    answer = explained("1", view, state(target("compute-xs", 1)))

    assert answer.text == "It can start on compute-xs-a: Slurm does so after the jobs of higher priority."
    assert answer.expected_start == at(NOW)


def test_a_busy_node_that_is_expected_to_have_capacity_before_a_new_worker() -> None:
    job = group("1", cpus=2)
    view = observation(snapshot((job,), nodes=(node("compute-xs-a", used=1),)), edge(worker("compute-xs-a")))
    place = Place("node", "compute-xs-a", "compute-xs")

    forecast = Forecast([job], demand_of([job], new_workers(view.binding.catalogue)), (place,))

    assert forecast.text(view, at(NOW)) == (
        "It waits for capacity on compute-xs-a, where jobs are expected to end before a new worker could start."
    )
    assert forecast.expected_start(view, LATENCY, at(NOW)) == at(NOW + 60)


def test_free_capacity_for_a_job_with_gpus_depends_on_the_gpus() -> None:
    job = group("1", gres="node/gpu=1")
    idle = node("l4-large-a")
    busy = node("l4-large-a", used=1).model_copy(update={"gres_allocated": {"gpu:l4": 2}})
    place = Place("node", "l4-large-a", "l4-large")

    for each, text in ((busy, "It waits for capacity on l4-large-a"), (idle, "It can start on l4-large-a")):
        view = observation(snapshot((job,), nodes=(each,)), edge(worker("l4-large-a")), catalogue=WITH_GPUS)
        forecast = Forecast([job], demand_of([job], new_workers(WITH_GPUS)), (place,))

        assert forecast.text(view, at(NOW)).startswith(text)
        assert forecast.usd_per_hour(WITH_GPUS.shapes) == pytest.approx(0.8)


def test_a_job_with_gpus_waits_for_a_shape_with_them() -> None:
    bought = explained("1", empty_cluster(group("1", gres="node/gpu=1"), catalogue=WITH_GPUS))
    unknown = explained("1", empty_cluster(group("1", gres="node/gpu:a100=1"), catalogue=WITH_GPUS))

    assert bought.text == ORDERED.format("l4-small")
    assert bought.usd_per_hour == pytest.approx(0.8)
    assert unknown.text == "No worker is bought for it now: no shape has gpu:a100:1."


def test_jobs_that_gather_before_workers_are_bought() -> None:
    gathering = {"name": "packing", "gather_seconds": 30.0}

    new = explained("1", empty_cluster(group("1", first_submitted_at=at(NOW - 5)), **gathering))
    old = explained("1", empty_cluster(group("1", first_submitted_at=at(NOW - 31)), **gathering))

    assert new.text == "No worker is bought for it now: workers are bought for several jobs together in a moment."
    assert old.text == ORDERED.format("compute-xs")


def test_a_draining_worker_that_is_undrained() -> None:
    draining = node("compute-xs-a", "IDLE", "DRAIN", reason=OUR_DRAIN)
    view = observation(snapshot((group("1"),), nodes=(draining,)), edge(worker("compute-xs-a")))

    answer = explained("1", view, state(target("compute-xs", 1), drains={"compute-xs-a": at(NOW - 1)}))

    assert answer.text == "It waits for compute-xs-a, which is being undrained."
    assert (answer.places[0].kind, answer.expected_start) == ("draining", at(NOW))


def test_equal_jobs_are_explained_together() -> None:
    answer = explained("2", empty_cluster(group("1", "2", "3", cpus=2, reason="None"), max_workers=2))

    assert answer.text == (
        "It and 2 more with the same request wait for workers of the shape compute-xs, which have been ordered but "
        "have not started yet. 1 of 3 get no worker now: the cluster has reached its limit on workers or on USD per "
        "hour."
    )
    assert answer.bought[0].workers == 2
    assert answer.expected_start is None
    assert answer.usd_per_hour == pytest.approx(0.08)


def test_a_job_of_several_nodes() -> None:
    job = group("1", cpus=4, nodes=2, cpus_per_node=2)
    view = observation(snapshot((job,), nodes=(node("compute-xs-a"),)), edge(worker("compute-xs-a")))

    answer = explained("1", view, state(target("compute-xs", 1)))

    assert answer.text == (
        "It waits for 2 nodes: workers of the shape compute-xs, which have been ordered but have not started yet, "
        "in addition to capacity on compute-xs-a."
    )
    assert answer.usd_per_hour == pytest.approx(2 * 0.08)
    assert answer.expected_start == at(NOW + 60)


def test_why_no_worker_is_bought_for_a_job_that_waits_for_nodes() -> None:
    too_big = explained("1", empty_cluster(group(cpus=64)))
    at_the_limit = explained("1", empty_cluster(group(), max_workers=0))

    assert too_big.text == "No worker is bought for it now: no shape has 64 CPUs and 2048 MiB on one node."
    assert (
        at_the_limit.text
        == "No worker is bought for it now: the cluster has reached its limit on workers or on USD per hour."
    )


def test_a_job_that_slurm_holds_because_no_node_fits() -> None:
    held = explained("1", empty_cluster(group(reason="BadConstraints", held=True)))

    assert held.cause == "fitting node"
    assert held.text.startswith("Slurm holds it until a fitting node registers. It waits for a worker")


def test_a_paused_cluster_and_another_partition() -> None:
    view = empty_cluster(group())
    paused = Observation(view.binding.model_copy(update={"state": "paused"}), view.snapshot, view.edge, view.now)

    assert explained("1", paused).text == (
        "The cluster is paused: no worker is bought, and it can start on present workers only."
    )
    assert explained("1", empty_cluster(group(partition="debug"))).text == (
        "Workers are bought only for the partition main, not for debug."
    )


def array_with_two_running_tasks() -> Observation:
    """An array of 22 tasks, numbered from 0; the tasks 1 and 2 run."""
    pending = group("42", count=20, array_tasks={"42": [[0, 0], [3, 21]]})
    tasks = (running("42_1", "compute-xs-a"), running("42_2", "compute-xs-a", since=-5.0))
    return observation(snapshot((pending,), tasks, (node("compute-xs-a", used=2),)), edge(worker("compute-xs-a")))


def test_an_array_and_its_tasks() -> None:
    view, before = array_with_two_running_tasks(), state(target("compute-xs", 1))

    array, running_task, pending_task = (explained(job_id, view, before) for job_id in ("42", "42_1", "42_7"))

    assert (array.state, running_task.state, pending_task.state) == ("pending", "running", "pending")
    assert array.text.startswith("2 of its tasks are running. The 20 tasks of the array that may start now wait for")
    assert pending_task.job_id == "42_7"
    assert pending_task.text.startswith("The 20 tasks of the array that may start now wait for workers")
    assert pending_task.usd_per_hour == pytest.approx(0.04)
    assert running_task.text == "It has been running on compute-xs-a since 2026-03-01 12:00:00 UTC."
    assert running_task.usd_per_hour == pytest.approx(0.04)


def test_an_array_of_which_all_remaining_tasks_run() -> None:
    view, before = array_with_two_running_tasks(), state(target("compute-xs", 1))
    started = observation(snapshot((), view.snapshot.running, view.snapshot.nodes), view.edge)

    array = explained("42", started, before)

    assert array.text == "2 of its tasks are running on compute-xs-a, the first since 2026-03-01 11:59:55 UTC."
    assert array.usd_per_hour == pytest.approx(0.08)
    assert explanation("42_9", ADA, inputs_of(started, before), at(NOW)) is None


def test_only_pending_tasks_of_an_array_are_explained_if_these_are_known() -> None:
    known = inputs_of(array_with_two_running_tasks(), state(target("compute-xs", 1)))
    unknown = observation(snapshot((group("42", count=20),)))

    assert explanation("42_22", ADA, known, at(NOW)) is None
    assert explanation("43_7", ADA, known, at(NOW)) is None
    assert explained("42_22", unknown).state == "pending"


def test_the_components_of_a_heterogeneous_job_are_explained_together() -> None:
    first = group("44", het_job_id="44", cpus=2)
    second = group("45", het_job_id="44", het_offset=1, features="memory")

    for job_id in ("44", "45"):
        answer = explained(job_id, empty_cluster(first, second))

        assert answer.text == (
            "It waits for 2 nodes: workers of the shape compute-xs and memory-xs, which have been ordered but have "
            "not started yet."
        )
        assert answer.usd_per_hour == pytest.approx(0.08 + 0.08)


def test_a_heterogeneous_job_is_blocked_if_one_component_is() -> None:
    first = group("44", het_job_id="44", cpus=2)
    held = group("45", het_job_id="44", het_offset=1, features="memory", held=True, reason="JobHeldUser")

    answer = explained("44", empty_cluster(first, held))

    assert (answer.cause, answer.reason) == ("hold", "JobHeldUser")


def test_a_running_job() -> None:
    job = running("1", "general-small-a", "general-small-b", cpus=4)
    view = observation(snapshot((), (job,), (node("general-small-a", used=2),)))

    answer = explained("1", view)

    assert answer.text == "It has been running on 2 nodes since 2026-03-01 12:00:00 UTC."
    assert [(place.kind, place.worker, place.shape) for place in answer.places] == [
        ("node", "general-small-a", "general-small"),
        ("node", "general-small-b", None),
    ]
    assert (answer.started_at, answer.expected_start, answer.reason, answer.cause) == (START, None, "", None)
    assert answer.usd_per_hour == pytest.approx(2 * 0.04)


def test_a_suspended_job_is_told_as_suspended() -> None:
    job = running("1", "compute-xs-a").model_copy(update={"suspended": True})
    of_two = (running("42_1", "compute-xs-a"), running("42_2", "compute-xs-a").model_copy(update={"suspended": True}))

    alone = explained("1", observation(snapshot((), (job,))))
    array = explained("42", observation(snapshot((), of_two)))

    assert (alone.state, alone.reason) == ("running", "Suspended")
    assert alone.text == (
        "It is suspended on compute-xs-a, where it started at 2026-03-01 12:00:00 UTC: its processes are stopped."
    )
    assert array.reason == ""
    assert array.text.endswith(" 1 of them is suspended.")


def test_only_the_owner_and_administrators_get_an_explanation() -> None:
    view = observation(snapshot((group("1"),), (running("2", "compute-xs-a"),)))
    administrator = BOB.model_copy(update={"admin": True})

    for job_id in ("1", "2"):
        assert explanation(job_id, BOB, inputs_of(view), at(NOW)) is None
        assert explained(job_id, view, viewer=administrator).job_id == job_id
    assert explanation("3", ADA, inputs_of(view), at(NOW)) is None


def test_shadow_mode_is_mentioned() -> None:
    answer = explained("1", empty_cluster(group()), shadow=True)

    assert answer.shadow
    assert answer.text == (
        "It waits for a worker of the shape compute-xs, which would be ordered. "
        "The scaler is in shadow mode: it decides but changes nothing."
    )


def test_an_unreadable_queue_is_mentioned() -> None:
    answer = explained("1", empty_cluster(group()), unreadable_since=at(NOW + 5))

    assert answer.text.endswith(
        "The queue has been unreadable since 2026-03-01 12:16:45 UTC: this is what was known before."
    )
