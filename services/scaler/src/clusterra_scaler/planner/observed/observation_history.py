"""Since when things have been so, where nobody else tells. A takeover forgets it, which only delays."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.queue import NodeState

from clusterra_scaler.planner.estimates.idle_gaps import Reuse
from clusterra_scaler.planner.estimates.keep_alive import Keeping
from clusterra_scaler.planner.estimates.provisioning_latency import Boots
from clusterra_scaler.planner.observed.launch_failures import failing_since
from clusterra_scaler.planner.observed.observation import Seen, busy_nodes, runs_nothing
from clusterra_scaler.planner.observed.registration import Looks
from clusterra_scaler.planner.observed.state import FleetState


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
    reuse: Reuse = field(default_factory=Reuse)
    """Of workers without work."""
    worked: Mapping[WorkerName, datetime] = field(default_factory=dict)
    """When there last was work for a worker, if there was any before our eyes."""
    called_away: frozenset[WorkerName] = frozenset()
    """Workers whose machine is taken away, as was announced while they stood; also once only Slurm has them."""

    @classmethod
    def after_takeover(cls, state: FleetState) -> "Sightings":
        """Of somebody else's requests no answer will be heard. What was learned is in the record."""
        return cls(
            lost=frozenset(state.undrains),
            looks=Looks(Boots(recorded=state.boot_p99_seconds)),
            reuse=Reuse(Keeping(learned=state.keep_seconds)),
        )

    def after(self, seen: Seen) -> "Sightings":
        """With what is seen now; a list that could not be read changes nothing."""
        nodes, edge = seen.snapshot.nodes, seen.edge
        idle, absent, called_away = self.idle, self.absent, self.called_away
        if nodes is not None and seen.snapshot.running is not None:
            busy = busy_nodes(seen.snapshot)
            idle = {
                node.name: self.idle.get(node.name, seen.snapshot.taken_at)
                for node in nodes
                if runs_nothing(node) and node.name not in busy
            }
        if nodes is not None and edge.listed(seen.now):
            there = {worker.name for worker in edge.workers or () if worker.phase != "failed"}
            absent = {node.name: self.absent.get(node.name, seen.now) for node in nodes if node.name not in there}
            standing = [worker for worker in edge.workers or () if worker.phase in ("booting", "running")]
            # A StatefulSet's next pod of the name stands on another machine.
            gone = {node.name for node in nodes} - {worker.name for worker in standing}
            called_away = (called_away & gone) | {each.name for each in standing if each.leaves_by is not None}
        looks = self.looks.after(seen)
        failing = failing_since(self.failing, seen, looks.boots)
        return replace(self, idle=idle, absent=absent, called_away=called_away, looks=looks, failing=failing)

    def idle_since(self, node: NodeState, now: datetime) -> datetime:
        """Since when a node has run nothing: by Slurm, where it tells."""
        if node.idle_since is None:
            return self.idle.get(node.name, now)
        return max(node.idle_since, node.registered_at or node.idle_since)

    def undrain_lost(self, node: str) -> "Sightings":
        """With an undrain that got no answer."""
        return replace(self, lost=self.lost | {node})
