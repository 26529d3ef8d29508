"""Holds back the jobs that Slurm does not start on idle workers, except in trials (see `observed.request_breakers`)."""

from dataclasses import replace

from clusterra_scaler.planner.observed.context import DecisionContext
from clusterra_scaler.planner.observed.request_breakers import admitted_demands
from clusterra_scaler.planner.placement.plan import Unmet
from clusterra_scaler.planner.requests.demand import Demand


def plannable_after_failures(context: DecisionContext) -> tuple[list[Demand], list[Unmet]]:
    """Return the jobs to plan for, in their order, and those that are held back, with the reason."""
    planned: list[Demand] = []
    held_back: list[Unmet] = []
    for each in admitted_demands(context.demands, context.state.request_breakers):
        if each.breaker is None:
            planned.append(each.demand)
            continue
        if each.count:
            planned.append(replace(each.demand, count=each.count))
        reason = each.breaker.description(context.observation.now)
        held_back.append(Unmet(each.demand, each.demand.count - each.count, reason))
    return planned, held_back
