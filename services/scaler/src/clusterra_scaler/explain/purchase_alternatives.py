"""Adds the compared shapes to each purchase of a decision; the decision's event keeps them.

It compares after the decision, from the decision's own results: what is decided, and what a replay decides again, does
not depend on it.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

import structlog
from clusterra_contracts.alternatives import MOST_OF_CHANGE
from clusterra_contracts.events import ShapeChange
from clusterra_contracts.identity import ShapeName
from clusterra_contracts.shape_fit import new_workers

from clusterra_scaler.explain.alternatives import Offered, for_waiting
from clusterra_scaler.explain.forecast import Forecast, waiting_groups
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.placement.plan import Plan
from clusterra_scaler.planner.requests.demand import demand_of

log = structlog.get_logger(__name__)

COMPARE_CPU_SECONDS = 0.01
"""After so much time of the thread no further change is compared: the decision waits for it."""

MOST_EVENT_BYTES = 12 * 1024
"""How long the JSON of a decision's event may be with alternatives: an item has room for several unsent ones."""

MOST_COMPARED = 10
"""For how many changes of a decision the shapes are compared: those that buy most. It bounds the time, and the size of
the decision's event."""


def decided_and_published(
    observation: Observation,
    state: FleetState,
    observation_history: ObservationHistory,
    run_history: RunHistory,
    *,
    shadow: bool,
) -> tuple[Decision, Decision]:
    """The decision, and the same one as it is published. In shadow mode nothing is published: they are one."""
    run_history.observe(observation.snapshot)
    decision = decide(observation, state, observation_history, run_history)
    return decision, decision if shadow else with_alternatives(decision, observation, run_history)


def with_alternatives(decision: Decision, observation: Observation, run_history: RunHistory) -> Decision:
    """The same decision, whose changes that buy workers for jobs tell the shapes that were compared.

    They are compared for the first job of a change that waits, once for each change. A failure of it costs the
    alternatives, never the decision.
    """
    try:
        return _with_alternatives(decision, observation, run_history)
    except Exception:
        log.exception("alternatives_not_compared", generation=decision.state.generation)
        return decision


def _with_alternatives(decision: Decision, observation: Observation, run_history: RunHistory) -> Decision:
    ends_at = time.thread_time() + COMPARE_CPU_SECONDS
    buying = [each for each in decision.changes if each.job_ids and each.replicas_after > each.replicas_before]
    offered = Offered.of(decision, observation.binding, run_history)
    if not buying or decision.plan is None or offered is None:
        return decision
    compared: dict[ShapeName, ShapeChange] = {}
    for each in sorted(buying, key=lambda each: each.replicas_before - each.replicas_after)[:MOST_COMPARED]:
        if time.thread_time() > ends_at:
            break
        compared[each.shape] = _compared(each, decision.plan, observation, offered)
    told = replace(decision, changes=tuple(compared.get(each.shape, each) for each in decision.changes))
    return replace(decision, changes=_within_bound(told, tuple(compared)))


def _within_bound(told: Decision, compared: Sequence[ShapeName]) -> tuple[ShapeChange, ...]:
    """The changes of a decision, without the alternatives for which its event has no room: those compared last."""
    changes = {each.shape: each for each in told.changes}
    excess = len(told.fact.model_dump_json()) - MOST_EVENT_BYTES
    for shape in reversed(compared):
        if excess <= 0:
            break
        plain = changes[shape].model_copy(update={"compared_jobs": (), "alternatives": ()})
        excess -= len(changes[shape].model_dump_json()) - len(plain.model_dump_json())
        changes[shape] = plain
    return tuple(changes[each.shape] for each in told.changes)


def _compared(change: ShapeChange, plan: Plan, observation: Observation, offered: Offered) -> ShapeChange:
    groups = waiting_groups(change.job_ids[0], observation.snapshot.pending or ())
    if not groups:
        return change
    demand = demand_of(groups, new_workers(observation.binding.catalogue))
    found = for_waiting(groups, Forecast.of(groups, demand, plan, shadow=False), plan, offered)
    alike = {job_id for group in groups for job_id in group.job_ids}
    return change.model_copy(
        update={
            "compared_jobs": tuple(job_id for job_id in change.job_ids if job_id in alike),
            "alternatives": found[:MOST_OF_CHANGE],
        }
    )
