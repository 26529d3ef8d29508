"""Tracks which workers are idle, by what Slurm shows and the plan needs, and learns from the idle gaps."""

from collections import Counter
from dataclasses import replace

from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.queue import NodeState

from clusterra_scaler.planner.estimates.idle_gaps import IdleGaps, substitutes
from clusterra_scaler.planner.estimates.keep_alive import KeepAliveCosts
from clusterra_scaler.planner.observed.context import DecisionContext
from clusterra_scaler.planner.observed.observation import Observation, runs_nothing
from clusterra_scaler.planner.observed.supply import drained_by_us
from clusterra_scaler.planner.placement.job_groups import BOOT_SECONDS
from clusterra_scaler.planner.placement.plan import Plan

REGISTRATION_SECONDS = 30.0
"""How long after the start of its slurmd a worker may seem to work because it registers."""


def with_idle_tracking(context: DecisionContext, plan: Plan | None) -> DecisionContext:
    """The context with idle gaps that include this observation; unchanged without a plan or a complete observation.

    A worker becomes idle when it runs nothing and no job is planned for it, also before it has registered. An idle gap
    ends when a job runs there or is planned to.
    """
    observation, supply, history = context.observation, context.supply, context.history
    if plan is None or not observation.complete:
        return context
    moment, taken_at = observation.now.timestamp(), observation.snapshot.taken_at
    standing = supply.workers.keys() & supply.nodes.keys()
    idle_gaps, worked = history.idle_gaps.copy(), dict(history.last_worked)
    for name in sorted(standing):
        node = supply.nodes[name]
        if name in plan.needed or name in plan.undrain or name in context.busy or node.cpus_allocated:
            idle_gaps.work_arrived(name, taken_at.timestamp())
            worked[name] = taken_at
        elif drained_by_us(node) or name in context.state.drains:
            if name in idle_gaps.idle:
                idle_gaps.release(name)
        elif node.draining or node.not_responding:
            if name in idle_gaps.idle:
                idle_gaps.lost(name, moment)
        elif runs_nothing(node):
            _track_idle_node(idle_gaps, node, context)
    coming = supply.workers.keys() - supply.nodes.keys()
    for name in sorted(coming):
        if name in plan.needed:
            idle_gaps.work_arrived(name, taken_at.timestamp())
            worked[name] = taken_at
        elif name not in idle_gaps.idle:
            _track_unregistered(idle_gaps, name, context)
    for name in sorted(idle_gaps.idle.keys() - standing - coming):
        idle_gaps.release(name) if name in context.state.victims else idle_gaps.lost(name, moment)
    _count_purchases(idle_gaps, observation, plan)
    worked = {name: at for name, at in worked.items() if name in supply.workers}
    return replace(context, history=replace(history, idle_gaps=idle_gaps, last_worked=worked))


def _track_idle_node(idle_gaps: IdleGaps, node: NodeState, context: DecisionContext) -> None:
    observation, history = context.observation, context.history
    name, idle_since = node.name, history.idle_since(node, observation.now)
    # A job that was planned there and cancelled before it began ended the gap before, too.
    since = max(idle_since, history.last_worked.get(name, idle_since)).timestamp()
    known = idle_gaps.idle.get(name) or idle_gaps.released.get(name)
    if name in idle_gaps.idle and node.registered_at is not None:
        registered = node.registered_at.timestamp()
        if idle_gaps.idle[name].since < registered and since <= registered + REGISTRATION_SECONDS:
            # Nothing wanted it before it registered.
            idle_gaps.registered(name, since)
            return
    if known is not None and since <= known.since:
        idle_gaps.reinstate(name)
        return
    # A known worker has run a job meanwhile that no snapshot shows.
    idle_gaps.work_arrived(name, since)
    shape = context.supply.workers[name].shape
    stakes = KeepAliveCosts.of(_usd_per_hour(shape, context), _boot_seconds(shape, context))
    idle_gaps.fell_idle(name, shape, since, stakes, observation.binding.policy.idle_seconds)


def _track_unregistered(idle_gaps: IdleGaps, name: WorkerName, context: DecisionContext) -> None:
    """A worker that boots without a job falls idle when the last one went. A miss costs what is done of its boot."""
    worker, taken_at = context.supply.workers[name], context.observation.snapshot.taken_at
    since = max(context.history.last_worked.get(name, worker.started_at), worker.started_at)
    done = min(max((taken_at - worker.started_at).total_seconds(), 0.0), _boot_seconds(worker.shape, context))
    stakes = KeepAliveCosts.of(_usd_per_hour(worker.shape, context), done)
    at_most = context.observation.binding.policy.idle_seconds
    idle_gaps.fell_idle_unregistered(name, worker.shape, since.timestamp(), stakes, at_most)


def _usd_per_hour(shape: ShapeName, context: DecisionContext) -> float:
    """The price of a shape. One without a known price is kept for as long as the policy allows."""
    catalogue = context.observation.binding.catalogue
    return catalogue[shape].usd_per_hour if shape in catalogue else 0.0


def _boot_seconds(shape: ShapeName, context: DecisionContext) -> float:
    seconds = context.history.registrations.latency.typical_seconds(shape)
    return BOOT_SECONDS if seconds is None else seconds


def _count_purchases(idle_gaps: IdleGaps, observation: Observation, plan: Plan) -> None:
    moment = observation.now.timestamp()
    idle_gaps.expire_followed(moment, observation.binding.policy.idle_seconds)
    if plan.new and idle_gaps.released:
        instead_of = substitutes(observation.binding.catalogue)
        for shape in (Counter(plan.new) - Counter(plan.warm)).elements():
            idle_gaps.bought(instead_of.get(shape, frozenset()), moment)
