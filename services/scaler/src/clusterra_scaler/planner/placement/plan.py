"""What of the fleet pending jobs use, and what must be bought for them: what a policy answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from clusterra_contracts.identity import JobId, ShapeName, WorkerName

from clusterra_scaler.planner.observed.supply import Kind
from clusterra_scaler.planner.requests.demand import Demand

NAMED_JOBS = 100
"""How many jobs a decision names at most."""


@dataclass(frozen=True, slots=True)
class Unmet:
    """Jobs that get no worker now, and why in words."""

    demand: Demand
    count: int
    reason: str


class Place(NamedTuple):
    """Where jobs are to run."""

    kind: Kind
    worker: WorkerName
    """Empty for a worker that has no name yet."""
    shape: ShapeName
    """Empty for a node that is no worker of ours."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the pending jobs use, by the order in which Slurm could have it."""

    needed: frozenset[WorkerName]
    """Nodes and booting workers that jobs wait for or will go to."""
    undrain: frozenset[WorkerName]
    """Draining nodes that are wanted again."""
    ordered: Mapping[ShapeName, int]
    """Of the workers ordered before, how many are still needed."""
    new: Mapping[ShapeName, int]
    jobs: Mapping[ShapeName, tuple[JobId, ...]]
    """For which jobs new workers are bought; a group of equal jobs is named whole."""
    places: Mapping[JobId, tuple[Place, ...]]
    """By the first id of a group of equal jobs, the workers that they are to run on."""
    unmet: tuple[Unmet, ...]
    clear: Mapping[WorkerName, JobId] = field(default_factory=dict)
    """Workers that take no more jobs and go, to make room for these."""
    warm: Mapping[ShapeName, int] = field(default_factory=dict)
    """Of the new ones, those that no job needs yet."""
