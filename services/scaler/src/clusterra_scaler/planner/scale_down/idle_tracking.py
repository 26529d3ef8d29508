"""Which workers have no work, by what Slurm shows and the plan needs, and what is learned from how long it lasts."""

from collections import Counter
from dataclasses import replace

from clusterra_contracts.queue import NodeState

from clusterra_scaler.planner.estimates.idle_gaps import IdleGaps, substitutes
from clusterra_scaler.planner.estimates.keep_alive import Stakes
from clusterra_scaler.planner.observed.observation import Observation, busy_nodes, runs_nothing
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.observed.supply import Supply, drained_by_us
from clusterra_scaler.planner.placement.plan import Plan
from clusterra_scaler.planner.placement.workloads import BOOT_SECONDS


def with_idleness(
    observation_history: ObservationHistory,
    observation: Observation,
    state: FleetState,
    supply: Supply,
    plan: Plan | None,
) -> ObservationHistory:
    """The sightings with what a whole view and its plan say of every worker; nothing new without them.

    A worker falls idle when it runs nothing and no job is planned for it. There is work for it as soon as a job runs
    there or is planned to.
    """
    if plan is None or not observation.whole:
        return observation_history
    busy = busy_nodes(observation.snapshot)
    moment, taken_at = observation.now.timestamp(), observation.snapshot.taken_at
    standing = supply.workers.keys() & supply.nodes.keys()
    idle_gaps, worked = observation_history.idle_gaps.copied(), dict(observation_history.worked)
    for name in sorted(standing):
        node = supply.nodes[name]
        if name in plan.needed or name in plan.undrain or name in busy or node.cpus_allocated:
            idle_gaps.wanted(name, taken_at.timestamp())
            worked[name] = taken_at
        elif drained_by_us(node) or name in state.drains:
            if name in idle_gaps.idle:
                idle_gaps.let_go(name)
        elif node.draining or node.gone:
            if name in idle_gaps.idle:
                idle_gaps.lost(name, moment)
        elif runs_nothing(node):
            _look(idle_gaps, node, observation_history, observation, supply)
    for name in sorted(idle_gaps.idle.keys() - standing):
        idle_gaps.lost(name, moment)
    _count_purchases(idle_gaps, observation, plan)
    worked = {name: at for name, at in worked.items() if name in supply.workers}
    return replace(observation_history, idle_gaps=idle_gaps, worked=worked)


def _look(
    idle_gaps: IdleGaps,
    node: NodeState,
    observation_history: ObservationHistory,
    observation: Observation,
    supply: Supply,
) -> None:
    name, idle_since = node.name, observation_history.idle_since(node, observation.now)
    # Work that never began, for its job was cancelled, was work all the same.
    since = max(idle_since, observation_history.worked.get(name, idle_since)).timestamp()
    known = idle_gaps.idle.get(name) or idle_gaps.released.get(name)
    if known is not None and since <= known.since:
        idle_gaps.back(name)
        return
    # If it is known, it has run something meanwhile that no snapshot shows.
    idle_gaps.wanted(name, since)
    shape, catalogue = supply.workers[name].shape, observation.binding.catalogue
    # One whose price is not known any more is kept as long as may be.
    usd_per_hour = catalogue[shape].usd_per_hour if shape in catalogue else 0.0
    boot_seconds = observation_history.registrations.latency.typical_seconds(shape)
    stakes = Stakes.of(usd_per_hour, BOOT_SECONDS if boot_seconds is None else boot_seconds)
    idle_gaps.fell_idle(name, shape, since, stakes, observation.binding.policy.idle_seconds)


def _count_purchases(idle_gaps: IdleGaps, observation: Observation, plan: Plan) -> None:
    moment = observation.now.timestamp()
    idle_gaps.follow(moment, observation.binding.policy.idle_seconds)
    if plan.new and idle_gaps.released:
        instead_of = substitutes(observation.binding.catalogue)
        for shape in (Counter(plan.new) - Counter(plan.warm)).elements():
            idle_gaps.bought(instead_of.get(shape, frozenset()), moment)
