"""Since when the conditions have held that no report has a time for. A takeover loses it, which only causes delays."""

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
from clusterra_scaler.planner.observed import launch_failures
from clusterra_scaler.planner.observed.drained_launches import DrainedLaunches
from clusterra_scaler.planner.observed.observation import Observation, busy_nodes, runs_nothing
from clusterra_scaler.planner.observed.registration import Registrations
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.observed.unstarted_jobs import UnstartedJobs


@dataclass(frozen=True, slots=True)
class ObservationHistory:
    """The history of one cluster's observations, by node, worker or shape."""

    idle: Mapping[str, datetime] = field(default_factory=dict)
    """For each node that runs nothing, when the first of the latest snapshots that showed it so was taken."""
    observed_at: datetime | None = None
    """When the last snapshot with nodes and running jobs was taken."""
    absent: Mapping[str, datetime] = field(default_factory=dict)
    """For each Slurm node whose worker the edge does not have or reports as failed, when that was first observed."""
    lost_undrains: Annotated[frozenset[str], Field(alias="lost")] = frozenset()
    """Nodes with an unanswered undrain. The answer to a later undrain does not settle these."""
    registrations: Annotated[Registrations, Field(alias="looks")] = field(default_factory=Registrations)
    """The workers that Slurm does not have, and what is learned of the provisioning latency."""
    stuck_since: Annotated[Mapping[ShapeName, datetime], Field(alias="failing")] = field(default_factory=dict)
    """For each shape whose workers do not start by the edge's report, when that was first reported."""
    drained_launches: DrainedLaunches = field(default_factory=DrainedLaunches)
    """The workers that Slurm drained as they registered."""
    unstarted_jobs: UnstartedJobs = field(default_factory=UnstartedJobs)
    """Since when idle workers have been there for jobs that do not start."""
    idle_gaps: Annotated[IdleGaps, Field(alias="reuse")] = field(default_factory=IdleGaps)
    """The gaps between work on idle workers."""
    last_worked: Annotated[Mapping[WorkerName, datetime], Field(alias="worked")] = field(default_factory=dict)
    """For each worker, when this scaler last observed work for it."""
    interrupted: Annotated[frozenset[WorkerName], Field(alias="called_away")] = frozenset()
    """Workers with an interruption notice for their machine, also after the edge has lost them while Slurm has them."""

    @classmethod
    def after_takeover(cls, state: FleetState) -> "ObservationHistory":
        """The history with which a new scaler starts: what is stored of it, and all undrains counted as unanswered."""
        return cls(
            lost_undrains=frozenset(state.undrains),
            registrations=Registrations(ProvisioningLatency(recorded=state.boot_p99_seconds)),
            idle_gaps=IdleGaps(KeepAlive(learned=state.keep_seconds)),
        )

    def after(self, observation: Observation) -> "ObservationHistory":
        """Add an observation. A list that could not be read changes nothing."""
        nodes, edge = observation.snapshot.nodes, observation.edge
        idle, absent, interrupted = self.idle, self.absent, self.interrupted
        observed_at, taken_at = self.observed_at, observation.snapshot.taken_at
        if nodes is not None and observation.snapshot.running is not None:
            busy = busy_nodes(observation.snapshot)
            # Nobody knows whether a node has worked while no snapshot was taken.
            known = self.idle if self._without_gap(observation) else {}
            observed_at = taken_at
            idle = {
                node.name: known.get(node.name, taken_at)
                for node in nodes
                if runs_nothing(node) and node.name not in busy
            }
        if nodes is not None and edge.is_fresh(observation.now):
            present = {worker.name for worker in edge.workers or () if worker.phase != "failed"}
            absent = {
                node.name: self.absent.get(node.name, observation.now) for node in nodes if node.name not in present
            }
            active = [worker for worker in edge.workers or () if worker.phase in ("booting", "running")]
            # A StatefulSet's next pod of the same name runs on another machine: an active worker's own notice counts.
            inactive = {node.name for node in nodes} - {worker.name for worker in active}
            interrupted = (interrupted & inactive) | {each.name for each in active if each.leaves_by is not None}
        registrations = self.registrations.after(observation)
        return replace(
            self,
            idle=idle,
            observed_at=observed_at,
            absent=absent,
            interrupted=interrupted,
            registrations=registrations,
            drained_launches=(
                self.drained_launches.after(observation) if observation.complete else self.drained_launches
            ),
            stuck_since=launch_failures.stuck_since(self.stuck_since, observation, registrations.latency),
        )

    def _without_gap(self, observation: Observation) -> bool:
        """Whether the last snapshot was valid until this one was taken."""
        snapshot = observation.snapshot
        if self.observed_at is None:
            return True
        return (snapshot.taken_at - self.observed_at).total_seconds() <= snapshot.valid_seconds

    def idle_since(self, node: NodeState, now: datetime) -> datetime:
        """Since when a node has run nothing: by Slurm's own record if it has one, else by the observed snapshots."""
        if node.idle_since is None:
            return self.idle.get(node.name, now)
        return max(node.idle_since, node.registered_at or node.idle_since)

    def with_lost_undrain(self, node: str) -> "ObservationHistory":
        """Add an undrain that got no answer."""
        return replace(self, lost_undrains=self.lost_undrains | {node})
