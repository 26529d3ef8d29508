"""The plan of a policy: which workers the pending jobs use, and which workers are bought for them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from clusterra_contracts.identity import JobId, ShapeName, WorkerName

from clusterra_scaler.planner.observed.supply import Kind
from clusterra_scaler.planner.requests.demand import Demand

NAMED_JOBS = 100
"""Maximum number of jobs that a decision names."""
AT_QUOTA = "the cluster has reached its limit on workers or on USD per hour"
"""The reason of jobs that the quota leaves without workers."""


@dataclass(frozen=True, slots=True)
class Unmet:
    """Jobs that get no worker now, and the reason for people."""

    demand: Demand
    count: int
    reason: str


class Place(NamedTuple):
    """The worker on which jobs are planned to run."""

    kind: Kind
    worker: WorkerName
    """Empty for a worker without a name yet."""
    shape: ShapeName
    """Empty for a node that is not our worker."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Workers for the pending jobs: existing, coming and new."""

    needed: frozenset[WorkerName]
    """Nodes and booting workers that jobs will use or wait for."""
    undrain: frozenset[WorkerName]
    """Draining nodes that jobs will use: their drain is cancelled."""
    ordered: Mapping[ShapeName, int]
    """How many of the workers ordered earlier are still needed."""
    new: Mapping[ShapeName, int]
    jobs: Mapping[ShapeName, tuple[JobId, ...]]
    """Jobs that the new workers are bought for. A group of equal jobs is named whole."""
    places: Mapping[JobId, tuple[Place, ...]]
    """The workers planned for a group of equal jobs, by the id of its first job."""
    unmet: tuple[Unmet, ...]
    drain_for: Mapping[WorkerName, JobId] = field(default_factory=dict)
    """Workers to drain for a head-job reservation, and its job."""
    warm: Mapping[ShapeName, int] = field(default_factory=dict)
    """How many of the new workers are for the warm pool."""
