"""`scaler.<tenant>.<cluster>.simulate`: what the planner decides under the present policy and under another one.

Both decisions are made from the same snapshot, the present one or that of an earlier decision, and thrown away.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from clusterra_contracts.identity import JobId, Moment, ShapeName, Wire, WorkerName
from clusterra_contracts.registry import ScalingPolicy

NAMED_WORKERS = 100
"""How many workers of a shape a simulation names."""
NAMED_JOBS = 20
"""How many jobs of a group a simulation names."""
NAMED_GROUPS = 100
"""How many groups of jobs a simulation tells of."""

MAX_FIELDS = 100
"""More than a policy has."""


class SimulatePolicy(Wire):
    """Decide under this policy, too. Its `mode` counts for nothing: nothing is done."""

    schema_name: ClassVar[str] = "simulate.policy.v1"

    policy: ScalingPolicy
    generation: Annotated[int, Field(ge=1)] | None = None
    """Decide from what the decision of this desired state was made from, while the scaler has it in its decision log;
    None: from what is known now. A release that does not know it decides from now, and its answer names none."""
    fields: Annotated[tuple[str, ...], Field(max_length=MAX_FIELDS)] = ()
    """With a `generation`: the fields of `policy` that are tried. All others are as the decision had them."""


class SimulatedShape(Wire):
    """The workers of one shape after a decision."""

    shape: ShapeName
    workers: Annotated[int, Field(ge=0)]
    """How many are desired."""
    new: Annotated[int, Field(ge=0)] = 0
    """How many of them would be bought."""
    drains: Annotated[int, Field(ge=0)] = 0
    """How many of them would be drained, and removed once they run nothing."""
    draining: Annotated[tuple[WorkerName, ...], Field(max_length=NAMED_WORKERS)] = ()
    """Those that would be drained, the first ones by name."""
    victims: Annotated[tuple[WorkerName, ...], Field(max_length=NAMED_WORKERS)] = ()
    """Those that the edge would remove at once, the first ones by name. They are none of `workers`."""
    usd_per_hour: float | None = None
    """The list price of all `workers`; None for a shape that the catalogue no longer has."""


class SimulatedWait(Wire):
    """Equal jobs that would get no worker now."""

    count: Annotated[int, Field(ge=1)]
    """How many jobs and array tasks."""
    reason: str
    job_ids: Annotated[tuple[JobId, ...], Field(max_length=NAMED_JOBS)]
    """Some of the group's jobs."""


class SimulatedDecision(Wire):
    """What one policy decides."""

    shapes: tuple[SimulatedShape, ...] = ()
    """The shapes with workers before or after the decision."""
    usd_per_hour: float = 0.0
    """The list price of all workers with one."""
    placed: Annotated[int, Field(ge=0)] = 0
    """How many of the jobs and array tasks that wait for nodes alone have a worker, or would get one."""
    waiting: Annotated[int, Field(ge=0)] = 0
    """How many of them would get none now."""
    waits: Annotated[tuple[SimulatedWait, ...], Field(max_length=NAMED_GROUPS)] = ()
    """These by group, the largest first."""


class Simulation(Wire):
    """Two decisions from one snapshot of the queue.

    `present` is what the cluster's policy decides; with a `generation` the policy that it had then.
    """

    schema_name: ClassVar[str] = "simulation.v1"

    present: SimulatedDecision
    changed: SimulatedDecision
    paused: bool = False
    """Whether the cluster is paused: it buys no worker under any policy."""
    shadow: bool = False
    """Whether the scaler is in shadow mode: it decides and changes nothing."""
    snapshot_generation: int
    as_of: Moment
    """When the read of the queue began."""
    generation: int | None = None
    """The desired state of the earlier decision whose inputs these are; None: the inputs are the present ones."""
