"""Since when things have been so, where nobody else tells. A takeover forgets it, which only delays."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from clusterra_contracts.identity import ShapeName

from clusterra_scaler.planner.boots import Boots
from clusterra_scaler.planner.capacity import failing_since
from clusterra_scaler.planner.ghosts import Looks
from clusterra_scaler.planner.seen import Seen, runs_nothing
from clusterra_scaler.planner.state import FleetState


@dataclass(frozen=True, slots=True)
class Sightings:
    """Of one cluster, by node."""

    idle: Mapping[str, datetime] = field(default_factory=dict)
    """Nodes that run nothing, since the first snapshot that showed it."""
    absent: Mapping[str, datetime] = field(default_factory=dict)
    """Slurm nodes whose worker the edge does not have, or has as ended."""
    lost: frozenset[str] = frozenset()
    """Nodes for which an undrain got no answer, so that a later one's answer does not settle it."""
    looks: Looks = field(default_factory=Looks)
    """Of workers that Slurm does not have."""
    failing: Mapping[ShapeName, datetime] = field(default_factory=dict)
    """Shapes whose workers do not start, as the edge says."""

    @classmethod
    def after_takeover(cls, state: FleetState) -> "Sightings":
        """Of somebody else's requests no answer will be heard. What was learned of boots is in the record."""
        return cls(lost=frozenset(state.undrains), looks=Looks(Boots(recorded=state.boot_p99_seconds)))

    def after(self, seen: Seen) -> "Sightings":
        """With what is seen now; a list that could not be read changes nothing."""
        nodes, running, edge = seen.snapshot.nodes, seen.snapshot.running, seen.edge
        idle, absent = self.idle, self.absent
        if nodes is not None and running is not None:
            busy = {name for job in running for name in job.nodes}
            idle = {
                node.name: self.idle.get(node.name, seen.snapshot.taken_at)
                for node in nodes
                if runs_nothing(node) and node.name not in busy
            }
        if nodes is not None and edge.listed(seen.now):
            there = {worker.name for worker in edge.workers or () if worker.phase != "failed"}
            absent = {node.name: self.absent.get(node.name, seen.now) for node in nodes if node.name not in there}
        looks = self.looks.after(seen)
        failing = failing_since(self.failing, seen, looks.boots)
        return replace(self, idle=idle, absent=absent, looks=looks, failing=failing)

    def undrain_lost(self, node: str) -> "Sightings":
        """With an undrain that got no answer."""
        return replace(self, lost=self.lost | {node})
