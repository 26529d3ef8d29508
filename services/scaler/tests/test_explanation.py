"""Explanations of jobs that wait or run, from a decision that was really made."""

from datetime import timedelta
from typing import Any

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.why import Explanation
from clusterra_scaler.explain.explanation import Grounds, explanation
from clusterra_scaler.explain.outlook import Outlook
from clusterra_scaler.explain.purchases import Purchases
from clusterra_scaler.explain.waiting import obstacle
from clusterra_scaler.planner.decide import decide
from clusterra_scaler.planner.estimates.provisioning_latency import ProvisioningLatency
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.placement.plan import Place
from clusterra_scaler.planner.placement.shape_choice import new_workers
from clusterra_scaler.planner.requests.demand import demand_of, waits_for_nodes
from clusterra_scaler.planner.requests.pending_reasons import cause_of
from fleet_examples import (
    NOW,
    OURS,
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
from hypothesis import given
from hypothesis import strategies as st

ADA = Viewer(user=SlurmUser(name="ada", uid=20001, gid=20001))
BOB = Viewer(user=SlurmUser(name="bob", uid=20002, gid=20002))
BOOTS = ProvisioningLatency().with_ended("compute-xs", 60.0)


def grounds(view: Observation, before: FleetState | None = None, **more: Any) -> Grounds:
    decision = decide(view, before or FleetState.undecided(START), ObservationHistory())
    assert decision.plan is not None
    bought = Purchases().after(decision, view.snapshot)
    return Grounds(view, decision.state, decision.plan, BOOTS, bought, **more)


def why(
    job_id: str, view: Observation, before: FleetState | None = None, viewer: Viewer = ADA, **more: Any
) -> Explanation:
    found = explanation(job_id, viewer, grounds(view, before, **more), view.now)
    assert found is not None
    return found


def waiting(*pending: PendingJobs, **policy: Any) -> Observation:
    return observation(snapshot(pending), **policy)


@pytest.mark.parametrize(
    ("asked", "cause", "text"),
    [
        ({"reason": "JobHeldUser", "held": True}, "hold", "It is held for its owner, who can release it."),
        ({"reason": "JobHeldAdmin", "held": True}, "hold", "It is held by an administrator, who alone can release it."),
        (
            {"reason": "Resources", "held": True},
            "hold",
            "It is held: Slurm does not consider it before it is released.",
        ),
        ({"reason": "Dependency", "dependent": True}, "dependency", "It waits for jobs that it depends on."),
        # Slurm says so only a second later.
        ({"reason": "None", "dependent": True}, "dependency", "It waits for jobs that it depends on."),
        (
            {"reason": "DependencyNeverSatisfied", "dependent": True},
            "dependency",
            "It depends on a job that did not end as it must: it can never start.",
        ),
        (
            {"reason": "BeginTime", "begins_at": at(NOW + 60)},
            "time",
            "It is not to start before 2026-03-01 12:17:40 UTC.",
        ),
        ({"reason": "Reservation", "reservation": "spring"}, "reservation", "It waits for its reservation spring."),
        ({"reason": "Licenses"}, "licence", "It waits for licences that are all in use."),
        (
            {"reason": "QOSMaxCpuPerUserLimit"},
            "limit",
            "A limit of its user, account or QOS keeps it waiting (QOSMaxCpuPerUserLimit).",
        ),
        ({"reason": "JobArrayTaskLimit", "count": 0}, "throttle", "Its array runs as many tasks at once as it allows."),
        ({"reason": "PartitionDown"}, "partition", "Its partition main is down."),
        ({"reason": "InvalidQOS"}, "account", "Its account or its QOS does not let it run here (InvalidQOS)."),
        (
            {"reason": "JobLaunchFailure", "held": True},
            "failure",
            "Its last start or run failed, and Slurm keeps it from starting again (JobLaunchFailure).",
        ),
        ({"reason": "MoonPhase"}, None, "Slurm keeps it waiting for a reason that is not known here (MoonPhase)."),
    ],
)
def test_what_new_workers_would_not_start(asked: dict[str, Any], cause: str | None, text: str) -> None:
    told = why("1", waiting(group(**asked)))
    assert told.text == f"{text} No worker is bought for it."
    assert (told.state, told.reason, told.cause) == ("pending", asked["reason"], cause)
    assert (told.places, told.bought, told.expected_start, told.usd_per_hour) == ((), (), None, None)


reasons = st.sampled_from(
    ["Resources", "Priority", "BadConstraints", "JobHeldUser", "Dependency", "PartitionDown", "Licenses", "New"]
)


@given(reasons, st.booleans(), st.booleans(), st.sampled_from(["", "r"]), st.sampled_from(["main", "main,debug"]))
def test_what_waits_for_nodes_is_what_workers_are_bought_for(
    reason: str, held: bool, dependent: bool, reservation: str, partition: str
) -> None:
    each = group(reason=reason, held=held, dependent=dependent, reservation=reservation, partition=partition)
    assert waits_for_nodes(each, at(NOW)) == (obstacle(each, at(NOW)) in ("nodes", "fitting node"))


@given(st.sampled_from(["BeginTime", "WaitForMoon"]) | reasons)
def test_every_reason_has_a_text(reason: str) -> None:
    assert why("1", waiting(group(reason=reason))).text.endswith(".")
    assert why("1", waiting(group(reason=reason))).cause == cause_of(reason)


def test_a_worker_is_bought_and_ordered() -> None:
    told = why("1", waiting(group("1", cpus=1)))
    assert told.text == "It waits for a worker of the shape compute-xs, which is ordered and not started yet."
    assert [place.model_dump() for place in told.places] == [{"kind": "ordered", "worker": None, "shape": "compute-xs"}]
    (bought,) = told.bought
    assert (bought.shape, bought.workers, bought.generation, bought.decided_at) == ("compute-xs", 1, 1, at(NOW))
    assert bought.reason == "1 more for pending job 1"
    assert told.expected_start == at(NOW + 60)
    assert told.usd_per_hour == pytest.approx(0.04)
    assert (told.generation, told.snapshot_generation, told.as_of) == (1, 1001, at(NOW))


def test_a_booting_worker_is_named() -> None:
    view = observation(snapshot((group("1"),)), edge(worker("compute-xs-a", "booting", started=NOW - 20)))
    told = why("1", view, state(target("compute-xs", 1), generation=1))
    assert told.text == "It waits for the worker compute-xs-a, which has been booting for 20 s."
    assert (told.places[0].kind, told.places[0].worker) == ("booting", "compute-xs-a")
    assert told.expected_start == at(NOW + 40)
    assert told.bought == ()
    late = observation(snapshot((group("1"),)), edge(worker("compute-xs-a", "booting", started=NOW - 200)))
    assert why("1", late, state(target("compute-xs", 1), generation=1)).expected_start == at(NOW)


def test_room_on_a_node_is_there_now() -> None:
    view = observation(
        snapshot((group("1", reason="Priority"),), nodes=(node("compute-xs-a"),)), edge(worker("compute-xs-a"))
    )
    told = why("1", view, state(target("compute-xs", 1)))
    assert told.text == "It can start on compute-xs-a: Slurm does it after jobs of higher priority."
    assert told.expected_start == at(NOW)


def test_room_that_will_be_free_before_a_new_worker_is_there() -> None:
    job = group("1", cpus=2)
    view = observation(snapshot((job,), nodes=(node("compute-xs-a", used=1),)), edge(worker("compute-xs-a")))
    there = Place("node", "compute-xs-a", "compute-xs")
    outlook = Outlook([job], demand_of([job], new_workers(view.binding.catalogue)), (there,))
    assert outlook.text(view, at(NOW)) == (
        "It waits for room on compute-xs-a, where jobs are expected to end before a new worker would be there."
    )
    assert outlook.expected_start(view, BOOTS, at(NOW)) == at(NOW + 60)


def test_a_job_with_gpus_waits_for_these_and_costs_its_share_of_them() -> None:
    job = group("1", gres="node/gpu=1")
    busy = node("l4-large-a", used=1).model_copy(update={"gres_allocated": {"gpu:l4": 2}})
    there = Place("node", "l4-large-a", "l4-large")
    for each, words in ((busy, "It waits for room on l4-large-a"), (node("l4-large-a"), "It can start on l4-large-a")):
        view = observation(snapshot((job,), nodes=(each,)), edge(worker("l4-large-a")), catalogue=WITH_GPUS)
        outlook = Outlook([job], demand_of([job], new_workers(WITH_GPUS)), (there,))
        assert outlook.text(view, at(NOW)).startswith(words)
        assert outlook.usd_per_hour(WITH_GPUS.shapes) == pytest.approx(0.8)
    bought = why("1", observation(snapshot((job,)), catalogue=WITH_GPUS))
    assert bought.text == "It waits for a worker of the shape l4-small, which is ordered and not started yet."
    assert bought.usd_per_hour == pytest.approx(0.8)
    none = why("1", observation(snapshot((group("1", gres="node/gpu:a100=1"),)), catalogue=WITH_GPUS))
    assert none.text == "No worker is bought for it now: no shape has gpu:a100:1."


def test_jobs_that_are_bought_for_together() -> None:
    told = why("1", waiting(group("1", first_submitted_at=at(NOW - 5)), name="packing", gather_seconds=30.0))
    assert told.text == "No worker is bought for it now: workers are bought for several jobs together in a moment."
    later = why("1", waiting(group("1", first_submitted_at=at(NOW - 31)), name="packing", gather_seconds=30.0))
    assert later.text == "It waits for a worker of the shape compute-xs, which is ordered and not started yet."


def test_a_draining_worker_is_taken_back() -> None:
    draining = node("compute-xs-a", "IDLE", "DRAIN", reason=OURS)
    view = observation(snapshot((group("1"),), nodes=(draining,)), edge(worker("compute-xs-a")))
    told = why("1", view, state(target("compute-xs", 1), drains={"compute-xs-a": at(NOW - 1)}))
    assert told.text == "It waits for compute-xs-a, which is taken back into work."
    assert (told.places[0].kind, told.expected_start) == ("draining", at(NOW))


def test_equal_jobs_are_told_of_together() -> None:
    told = why("2", waiting(group("1", "2", "3", cpus=2, reason="None"), max_workers=2))
    assert told.text == (
        "It and 2 more that ask for the same wait for workers of the shape compute-xs, which are ordered and not "
        "started yet. 1 of 3 get no worker now: the cluster has as many workers as it may have."
    )
    assert told.bought[0].workers == 2
    assert told.expected_start is None
    assert told.usd_per_hour == pytest.approx(0.08)


def test_a_job_of_several_nodes() -> None:
    view = observation(
        snapshot((group("1", cpus=4, nodes=2, cpus_per_node=2),), nodes=(node("compute-xs-a"),)),
        edge(worker("compute-xs-a")),
    )
    told = why("1", view, state(target("compute-xs", 1)))
    assert told.text == (
        "It waits for 2 nodes: workers of the shape compute-xs, which are ordered and not started yet, "
        "beside room on compute-xs-a."
    )
    assert told.usd_per_hour == pytest.approx(2 * 0.08)
    assert told.expected_start == at(NOW + 60)


def test_what_no_shape_fits_and_what_no_worker_may_be_bought_for() -> None:
    assert why("1", waiting(group(cpus=64))).text == (
        "No worker is bought for it now: no shape has 64 CPUs and 2048 MiB on one node."
    )
    assert why("1", waiting(group(), max_workers=0)).text == (
        "No worker is bought for it now: the cluster has as many workers as it may have."
    )
    held = why("1", waiting(group(reason="BadConstraints", held=True)))
    assert held.cause == "fitting node"
    assert held.text.startswith("Slurm holds it until a node registers that fits it. It waits for a worker")


def test_a_paused_cluster_and_another_partition() -> None:
    view = waiting(group())
    paused = Observation(view.binding.model_copy(update={"state": "paused"}), view.snapshot, view.edge, view.now)
    assert why("1", paused).text.startswith("The cluster is paused")
    assert why("1", waiting(group(partition="debug"))).text == (
        "Workers are bought for the partition main alone, not for debug."
    )


def test_arrays() -> None:
    view = observation(
        snapshot(
            (group("42", count=20, array_tasks={"42": [[0, 0], [3, 21]]}),),
            (running("42_1", "compute-xs-a"), running("42_2", "compute-xs-a", since=-5.0)),
            (node("compute-xs-a", used=2),),
        ),
        edge(worker("compute-xs-a")),
    )
    before = state(target("compute-xs", 1))
    whole, task, other = (why(job_id, view, before) for job_id in ("42", "42_1", "42_7"))
    assert (whole.state, task.state, other.state) == ("pending", "running", "pending")
    assert whole.text.startswith("2 of its tasks run already. The 20 tasks of the array that may start now wait for")
    assert other.job_id == "42_7"
    assert other.text.startswith("The 20 tasks of the array that may start now wait for workers")
    assert other.usd_per_hour == pytest.approx(0.04)
    assert task.text == "It runs on compute-xs-a, since 2026-03-01 12:00:00 UTC."
    assert task.usd_per_hour == pytest.approx(0.04)
    ended = observation(snapshot((), view.snapshot.running, view.snapshot.nodes), edge(worker("compute-xs-a")))
    both = why("42", ended, before)
    assert both.text == "2 of its tasks run on compute-xs-a, since 2026-03-01 11:59:55 UTC."
    assert both.usd_per_hour == pytest.approx(0.08)
    for job_id in ("42_22", "43_7"):
        assert explanation(job_id, ADA, grounds(view, before), at(NOW)) is None
    assert explanation("42_9", ADA, grounds(ended, before), at(NOW)) is None
    untold = observation(snapshot((group("42", count=20),)))
    assert why("42_22", untold).state == "pending"


def test_the_components_of_a_heterogeneous_job_wait_together() -> None:
    one, two = group("44", het_job_id="44", cpus=2), group("45", het_job_id="44", het_offset=1, features="memory")
    for job_id in ("44", "45"):
        told = why(job_id, waiting(one, two))
        assert told.text == (
            "It waits for 2 nodes: workers of the shape compute-xs and memory-xs, which are ordered and not started "
            "yet."
        )
        assert told.usd_per_hour == pytest.approx(0.08 + 0.04)
    held = why("44", waiting(one, two.model_copy(update={"held": True, "reason": "JobHeldUser"})))
    assert (held.cause, held.reason) == ("hold", "JobHeldUser")


def test_a_running_job() -> None:
    view = observation(
        snapshot((), (running("1", "general-small-a", "general-small-b", cpus=4),), (node("general-small-a", used=2),))
    )
    told = why("1", view)
    assert told.text == "It runs on 2 nodes, since 2026-03-01 12:00:00 UTC."
    assert [(place.kind, place.worker, place.shape) for place in told.places] == [
        ("node", "general-small-a", "general-small"),
        ("node", "general-small-b", None),
    ]
    assert (told.started_at, told.expected_start, told.reason, told.cause) == (START, None, "", None)
    assert told.usd_per_hour == pytest.approx(2 * 0.04)


def test_only_the_owner_and_an_administrator_are_told() -> None:
    view = observation(snapshot((group("1"),), (running("2", "compute-xs-a"),)))
    for job_id in ("1", "2"):
        assert explanation(job_id, BOB, grounds(view), at(NOW)) is None
        assert why(job_id, view, viewer=BOB.model_copy(update={"admin": True})).job_id == job_id
    assert explanation("3", ADA, grounds(view), at(NOW)) is None


def test_shadow_mode_and_a_queue_that_cannot_be_read() -> None:
    told = why("1", waiting(group()), shadow=True)
    assert told.shadow
    assert told.text == (
        "It waits for a worker of the shape compute-xs, which would be ordered. "
        "The scaler is in shadow mode: it decides and changes nothing."
    )
    old = why("1", waiting(group()), unreadable_since=at(NOW + 5))
    assert old.text.endswith(
        "The queue could not be read since 2026-03-01 12:16:45 UTC: this is what was known before."
    )


def test_purchases_are_remembered_while_the_jobs_are_there() -> None:
    view = waiting(group("1", "2", cpus=2))
    decision = decide(view, FleetState.undecided(START), ObservationHistory())
    bought = Purchases().after(decision, view.snapshot)
    assert bought.last(["2"]) == bought.last(["1", "99"])
    assert bought.last(["99"]) == ()
    later = Observation(view.binding, snapshot((group("2", cpus=2), group("3", cpus=8))), view.edge, at(NOW + 10))
    again = decide(later, decision.state, decision.observation_history)
    both = bought.after(again, later.snapshot)
    assert set(both.by_job) == {"2", "3"}
    assert both.last(["2"])[0].decided_at == at(NOW)
    assert both.last(["3"])[0].decided_at == at(NOW) + timedelta(seconds=10)
    assert both.after(decide(later, again.state, again.observation_history), later.snapshot) is both
