"""What blocks a job for which new workers are no help: its cause and its text."""

from typing import Any

import pytest
from clusterra_scaler.explain.blocking import cause_of
from clusterra_scaler.planner.requests.demand import waits_for_nodes
from clusterra_scaler.planner.requests.pending_reasons import cause_of_reason
from explanation_examples import empty_cluster, explained
from fleet_examples import NOW, at, group
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("asked", "cause", "text"),
    [
        ({"reason": "JobHeldUser", "held": True}, "hold", "It is held by its owner, who can release it."),
        (
            {"reason": "JobHeldAdmin", "held": True},
            "hold",
            "It is held by an administrator, and only an administrator can release it.",
        ),
        (
            {"reason": "Resources", "held": True},
            "hold",
            "It is held: Slurm will not consider it until it is released.",
        ),
        ({"reason": "Dependency", "dependent": True}, "dependency", "It waits for jobs that it depends on."),
        # Slurm reports the reason only a second later.
        ({"reason": "None", "dependent": True}, "dependency", "It waits for jobs that it depends on."),
        (
            {"reason": "DependencyNeverSatisfied", "dependent": True},
            "dependency",
            "It depends on a job that did not end as required: it can never start.",
        ),
        (
            {"reason": "BeginTime", "begins_at": at(NOW + 60)},
            "time",
            "It will not start before 2026-03-01 12:17:40 UTC.",
        ),
        ({"reason": "Reservation", "reservation": "spring"}, "reservation", "It waits for its reservation spring."),
        ({"reason": "Licenses"}, "licence", "It waits for licences that are all in use."),
        (
            {"reason": "QOSMaxCpuPerUserLimit"},
            "limit",
            "A limit of its user, account or QOS keeps it waiting (QOSMaxCpuPerUserLimit).",
        ),
        (
            {"reason": "JobArrayTaskLimit", "count": 0},
            "throttle",
            "Its array already runs as many tasks at once as its limit allows.",
        ),
        ({"reason": "PartitionDown"}, "partition", "Its partition main is down."),
        ({"reason": "InvalidQOS"}, "account", "Its account or QOS does not allow it to run here (InvalidQOS)."),
        (
            {"reason": "JobLaunchFailure", "held": True},
            "failure",
            "Its last start or run failed, and Slurm does not start it again (JobLaunchFailure).",
        ),
        (
            {"reason": "Unreadable: cpus, tasks", "count": 0},
            "failure",
            "A part of Slurm's record of it cannot be read, so nobody knows what it needs (Unreadable: cpus, tasks).",
        ),
        (
            {"reason": "MoonPhase"},
            None,
            "Slurm keeps it waiting for a reason that the scaler does not know (MoonPhase).",
        ),
    ],
)
def test_no_worker_is_bought_for_a_blocked_job_and_its_cause_is_explained(
    asked: dict[str, Any], cause: str | None, text: str
) -> None:
    answer = explained("1", empty_cluster(group(**asked)))

    assert answer.text == f"{text} No worker is bought for it."
    assert (answer.state, answer.reason, answer.cause) == ("pending", asked["reason"], cause)
    assert (answer.places, answer.bought, answer.expected_start, answer.usd_per_hour) == ((), (), None, None)


reasons = st.sampled_from(
    ["Resources", "Priority", "BadConstraints", "JobHeldUser", "Dependency", "PartitionDown", "Licenses", "New"]
)


@given(reasons, st.booleans(), st.booleans(), st.sampled_from(["", "r"]), st.sampled_from(["main", "main,debug"]))
def test_the_causes_that_workers_are_bought_for_are_those_that_wait_for_nodes(
    reason: str, held: bool, dependent: bool, reservation: str, partition: str
) -> None:
    each = group(reason=reason, held=held, dependent=dependent, reservation=reservation, partition=partition)
    assert waits_for_nodes(each, at(NOW)) == (cause_of(each, at(NOW)) in ("nodes", "fitting node"))


@given(st.sampled_from(["BeginTime", "WaitForMoon"]) | reasons)
def test_every_reason_has_a_text(reason: str) -> None:
    assert explained("1", empty_cluster(group(reason=reason))).text.endswith(".")
    assert explained("1", empty_cluster(group(reason=reason))).cause == cause_of_reason(reason)
