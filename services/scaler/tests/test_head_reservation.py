"""The head-job reservation: which job gets it, and which workers are drained for it."""

from typing import Any

import pytest
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.rpc.slurm_nodes import Drain
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from fleet_examples import NOW, OUR_DRAIN, at, edge, group, node, observation, running, snapshot, state, target, worker

SMALL = ("compute-xs-1", "compute-xs-2", "compute-xs-3")
LATER = group("8", "9", cpus=2, first_submitted_at=at(NOW - 1))


def big(submitted: float = 0.0, **asked: Any) -> PendingJobs:
    return group("7", **{"cpus": 16, "first_submitted_at": at(submitted)} | asked)


def decide_for_busy_fleet(
    *pending: PendingJobs, before: FleetState | None = None, drained: tuple[str, ...] = (), **policy: Any
) -> Decision:
    """Decides for three small workers, each with a job since ten minutes; the first one ends soonest."""
    nodes = tuple(
        node(name, "MIXED", "DRAIN", used=2, reason=OUR_DRAIN) if name in drained else node(name, used=2)
        for name in SMALL
    )
    runs = tuple(
        running(str(100 + number), name, cpus=2, since=NOW - 600).model_copy(
            update={"ends_by": at(NOW + 10 * 60**number)}
        )
        for number, name in enumerate(SMALL)
    )
    limits: dict[str, Any] = {"name": "packing", "max_workers": 3, **policy}
    view = observation(snapshot(pending, runs, nodes), edge(*map(worker, SMALL)), **limits)
    return decide(view, before or state(target("compute-xs", 3)), ObservationHistory())


def decide_for_empty_fleet(*pending: PendingJobs, **policy: Any) -> Decision:
    """Decides for a fleet without workers; all jobs have waited for long."""
    return decide(
        observation(snapshot(pending, (), ()), edge(), name="packing", **policy), state(), ObservationHistory()
    )


def drains(decision: Decision) -> list[str]:
    return [each.node for each in decision.actions if isinstance(each, Drain)]


def bought(decision: Decision) -> dict[str, int]:
    assert decision.plan is not None
    return dict(decision.plan.new)


def test_the_worker_that_is_empty_soonest_is_drained_for_the_head_job() -> None:
    decision = decide_for_busy_fleet(big())
    assert drains(decision) == ["compute-xs-1"]
    assert decision.actions[0] == Drain(node="compute-xs-1", reason="makes room for job 7")


def test_the_job_of_highest_slurm_priority_gets_the_reservation() -> None:
    younger, older = big(NOW - 100), group("6", cpus=16, first_submitted_at=at(0), time_limit_seconds=60.0)
    for order in ((younger, older), (older, younger)):
        first = order[0].job_ids[0]
        assert decide_for_busy_fleet(*order).actions[0] == Drain(
            node="compute-xs-1", reason=f"makes room for job {first}"
        )


def test_the_reservation_takes_nothing_that_is_bought_for_a_job_before_it() -> None:
    first, second = (group(job_id, cpus=32, memory_per_node_mib=gib * 1024) for job_id, gib in (("2", 224), ("1", 32)))
    assert bought(decide_for_empty_fleet(first, second, max_workers=1)) == {"memory-xlarge": 1}
    assert bought(decide_for_empty_fleet(second, first, max_workers=1)) == {"compute-xlarge": 1}
    assert bought(decide_for_empty_fleet(first, second, usd_per_hour=2.0)) == {"memory-xlarge": 1}


def test_a_new_job_gets_no_reservation_before_one_provisioning_latency() -> None:
    assert drains(decide_for_busy_fleet(big(NOW - 30))) == []


def test_nothing_is_drained_while_jobs_wait_for_a_slurm_reservation() -> None:
    assert drains(decide_for_busy_fleet(big(), group("9", reservation="later", reason="Reservation"))) == []


def test_as_many_workers_are_drained_as_the_job_needs_nodes() -> None:
    assert drains(decide_for_busy_fleet(big(cpus=32, nodes=2))) == ["compute-xs-1", "compute-xs-2"]


def test_the_reservation_stays_until_the_job_has_its_workers() -> None:
    before = state(target("compute-xs", 3), drains={"compute-xs-2": at(NOW - 50)})
    decision = decide_for_busy_fleet(big(), LATER, before=before, drained=("compute-xs-2",))
    assert drains(decision) == []
    assert decision.plan is not None
    assert dict(decision.plan.drain_for) == {"compute-xs-2": "7"}
    assert not decision.plan.undrain


def test_freed_quota_is_for_the_head_job_and_no_later_one() -> None:
    gang = big(cpus=32, nodes=2)
    assert bought(decide_for_busy_fleet(gang, LATER, max_workers=4)) == {}
    assert (
        bought(
            decide_for_busy_fleet(gang.model_copy(update={"first_submitted_at": at(NOW - 30)}), LATER, max_workers=4)
        )
        != {}
    )
    assert sum(bought(decide_for_busy_fleet(gang, LATER, max_workers=5)).values()) == 2


@pytest.mark.parametrize(
    "policy",
    [
        {"warm": {"compute-xs": 3}},  # The warm pool is not drained.
        {"usd_per_hour": 16 * 0.04 - 0.01},
    ],
)
def test_nothing_is_drained_where_the_job_still_could_not_have_its_workers(policy: dict[str, Any]) -> None:
    assert drains(decide_for_busy_fleet(big(), **policy)) == []


def test_enough_workers_are_drained_for_the_price_of_the_new_ones() -> None:
    # Each costs 0.08 USD per hour, and the job needs 0.64.
    assert drains(decide_for_busy_fleet(big(), max_workers=9, usd_per_hour=0.64 + 0.08)) == [
        "compute-xs-1",
        "compute-xs-2",
    ]


def test_a_larger_worker_replaces_a_small_one_where_many_cpus_wait() -> None:
    many = group(*map(str, range(20, 30)), cpus=2, first_submitted_at=at(0))
    assert drains(decide_for_busy_fleet(many)) == ["compute-xs-1"]
    assert drains(decide_for_busy_fleet(many, usd_per_hour=3 * 0.08)) == []
    assert drains(decide_for_busy_fleet(group("20", cpus=2, first_submitted_at=at(0)))) == []
