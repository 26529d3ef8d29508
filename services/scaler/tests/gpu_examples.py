"""Decisions for clusters whose catalogue has shapes with GPUs."""

from typing import Any

from clusterra_contracts.queue import PendingJobs
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.observed.observation import Edge
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.placement.plan import Plan
from fleet_examples import START, WITH_GPUS, observation, snapshot

CLASSED = "open=1|u20001.c1=1"
"""The `--extra` of a job with a class."""


def decision_of(
    policy: str,
    pending: tuple[PendingJobs, ...],
    report: Edge | None = None,
    before: FleetState | None = None,
    **more: Any,
) -> Decision:
    """One decision. `more`: `runs` and `nodes` of the snapshot, the `catalogue`, and settings of the policy."""
    shot = snapshot(pending, more.pop("runs", ()), more.pop("nodes", ()))
    view = observation(shot, report, name=policy, catalogue=more.pop("catalogue", WITH_GPUS), **more)
    return decide(view, before or FleetState.initial(START), ObservationHistory())


def plan_of(decision: Decision) -> Plan:
    assert decision.plan is not None
    return decision.plan


def bought(policy: str, *pending: PendingJobs, **more: Any) -> dict[str, int]:
    """The new workers of one decision, by shape. `more` as in `decision_of`."""
    return dict(plan_of(decision_of(policy, pending, **more)).new)
