"""Which workers have no work, by what Slurm shows and the plan needs, and what is learned from how long it lasts."""

from collections import Counter
from dataclasses import replace

from clusterra_contracts.queue import NodeState

from clusterra_scaler.planner.estimates.idle_gaps import Reuse, substitutes
from clusterra_scaler.planner.estimates.keep_alive import Stakes
from clusterra_scaler.planner.observed.observation import Seen, busy_nodes, runs_nothing
from clusterra_scaler.planner.observed.observation_history import Sightings
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.observed.supply import Supply, drained_by_us
from clusterra_scaler.planner.placement.plan import Plan
from clusterra_scaler.planner.placement.workloads import BOOT_SECONDS


def with_idleness(sightings: Sightings, seen: Seen, state: FleetState, supply: Supply, plan: Plan | None) -> Sightings:
    """The sightings with what a whole view and its plan say of every worker; nothing new without them.

    A worker falls idle when it runs nothing and no job is planned for it. There is work for it as soon as a job runs
    there or is planned to.
    """
    if plan is None or not seen.whole:
        return sightings
    busy = busy_nodes(seen.snapshot)
    moment, taken_at = seen.now.timestamp(), seen.snapshot.taken_at
    standing = supply.workers.keys() & supply.nodes.keys()
    reuse, worked = sightings.reuse.copied(), dict(sightings.worked)
    for name in sorted(standing):
        node = supply.nodes[name]
        if name in plan.needed or name in plan.undrain or name in busy or node.cpus_allocated:
            reuse.wanted(name, taken_at.timestamp())
            worked[name] = taken_at
        elif drained_by_us(node) or name in state.drains:
            if name in reuse.idle:
                reuse.let_go(name)
        elif node.draining or node.gone:
            if name in reuse.idle:
                reuse.lost(name, moment)
        elif runs_nothing(node):
            _look(reuse, node, sightings, seen, supply)
    for name in sorted(reuse.idle.keys() - standing):
        reuse.lost(name, moment)
    _count_purchases(reuse, seen, plan)
    worked = {name: at for name, at in worked.items() if name in supply.workers}
    return replace(sightings, reuse=reuse, worked=worked)


def _look(reuse: Reuse, node: NodeState, sightings: Sightings, seen: Seen, supply: Supply) -> None:
    name, idle_since = node.name, sightings.idle_since(node, seen.now)
    # Work that never began, for its job was cancelled, was work all the same.
    since = max(idle_since, sightings.worked.get(name, idle_since)).timestamp()
    known = reuse.idle.get(name) or reuse.released.get(name)
    if known is not None and since <= known.since:
        reuse.back(name)
        return
    # If it is known, it has run something meanwhile that no snapshot shows.
    reuse.wanted(name, since)
    shape, catalogue = supply.workers[name].shape, seen.binding.catalogue
    # One whose price is not known any more is kept as long as may be.
    usd_per_hour = catalogue[shape].usd_per_hour if shape in catalogue else 0.0
    boot_seconds = sightings.looks.boots.typical_seconds(shape)
    stakes = Stakes.of(usd_per_hour, BOOT_SECONDS if boot_seconds is None else boot_seconds)
    reuse.fell_idle(name, shape, since, stakes, seen.binding.policy.idle_seconds)


def _count_purchases(reuse: Reuse, seen: Seen, plan: Plan) -> None:
    moment = seen.now.timestamp()
    reuse.follow(moment, seen.binding.policy.idle_seconds)
    if plan.new and reuse.released:
        instead_of = substitutes(seen.binding.catalogue)
        for shape in (Counter(plan.new) - Counter(plan.warm)).elements():
            reuse.bought(instead_of.get(shape, frozenset()), moment)
