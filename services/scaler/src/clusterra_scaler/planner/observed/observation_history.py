"""Since when things have been so, where nobody else tells. A takeover forgets it, which only delays."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated

from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.queue import NodeState
from pydantic import Field

from clusterra_scaler.planner.estimates.idle_gaps import IdleGaps
from clusterra_scaler.planner.estimates.keep_alive import KeepAlive
from clusterra_scaler.planner.estimates.provisioning_latency import ProvisioningLatency
from clusterra_scaler.planner.observed.launch_failures import failing_since
from clusterra_scaler.planner.observed.observation import Observation, busy_nodes, runs_nothing
from clusterra_scaler.planner.observed.registration import Registrations
from clusterra_scaler.planner.observed.state import FleetState


@dataclass(frozen=True, slots=True)
class ObservationHistory:
    """Of one cluster, by node."""

    idle: Mapping[str, datetime] = field(default_factory=dict)
    """Nodes that run nothing, since the first snapshot that showed it."""
    absent: Mapping[str, datetime] = field(default_factory=dict)
    """Slurm nodes whose worker the edge does not have, or has as ended."""
    lost: frozenset[str] = frozenset()
    """Nodes for which an undrain got no answer, so that a later one's answer does not settle it."""
    registrations: Annotated[Registrations, Field(alias="looks")] = field(default_factory=Registrations)
    """Of workers that Slurm does not have."""
    failing: Mapping[ShapeName, datetime] = field(default_factory=dict)
    """Shapes whose workers do not start, as the edge says."""
    idle_gaps: Annotated[IdleGaps, Field(alias="reuse")] = field(default_factory=IdleGaps)
    """Of workers without work."""
    worked: Mapping[WorkerName, datetime] = field(default_factory=dict)
    """When there last was work for a worker, if there was any before our eyes."""
    interrupted: Annotated[frozenset[WorkerName], Field(alias="called_away")] = frozenset()
    """Workers whose machine is taken away, as was announced while they stood; also once only Slurm has them."""

    @classmethod
    def after_takeover(cls, state: FleetState) -> "ObservationHistory":
        """Of somebody else's requests no answer will be heard. What was learned is in the record."""
        return cls(
            lost=frozenset(state.undrains),
            registrations=Registrations(ProvisioningLatency(recorded=state.boot_p99_seconds)),
            idle_gaps=IdleGaps(KeepAlive(learned=state.keep_seconds)),
        )

    def after(self, observation: Observation) -> "ObservationHistory":
        """With what is seen now; a list that could not be read changes nothing."""
        nodes, edge = observation.snapshot.nodes, observation.edge
        idle, absent, interrupted = self.idle, self.absent, self.interrupted
        if nodes is not None and observation.snapshot.running is not None:
            busy = busy_nodes(observation.snapshot)
            idle = {
                node.name: self.idle.get(node.name, observation.snapshot.taken_at)
                for node in nodes
                if runs_nothing(node) and node.name not in busy
            }
        if nodes is not None and edge.listed(observation.now):
            there = {worker.name for worker in edge.workers or () if worker.phase != "failed"}
            absent = {
                node.name: self.absent.get(node.name, observation.now) for node in nodes if node.name not in there
            }
            standing = [worker for worker in edge.workers or () if worker.phase in ("booting", "running")]
            # A StatefulSet's next pod of the name stands on another machine.
            gone = {node.name for node in nodes} - {worker.name for worker in standing}
            interrupted = (interrupted & gone) | {each.name for each in standing if each.leaves_by is not None}
        registrations = self.registrations.after(observation)
        failing = failing_since(self.failing, observation, registrations.latency)
        return replace(
            self, idle=idle, absent=absent, interrupted=interrupted, registrations=registrations, failing=failing
        )

    def idle_since(self, node: NodeState, now: datetime) -> datetime:
        """Since when a node has run nothing: by Slurm, where it tells."""
        if node.idle_since is None:
            return self.idle.get(node.name, now)
        return max(node.idle_since, node.registered_at or node.idle_since)

    def undrain_lost(self, node: str) -> "ObservationHistory":
        """With an undrain that got no answer."""
        return replace(self, lost=self.lost | {node})
