"""A cluster's binding: what the other services must know of it. The gateway writes it, the others watch it."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from clusterra_contracts.identity import ShapeName, SlurmUser, Wire
from clusterra_contracts.shapes import Catalogue

SecretReference = Annotated[str, StringConstraints(pattern=r"^(file|kubernetes|aws-secretsmanager):.+$")]
"""Where a secret is kept; never the secret itself."""


class ScalingPolicy(Wire):
    """How the scaler decides for a cluster. Durations are seconds."""

    name: Literal["packing", "family"] = "packing"
    idle_seconds: Annotated[float, Field(ge=0)] = 150.0
    """An idle worker is drained when it has run nothing for this long (customer value `scaleInCooldownSeconds`)."""
    max_workers: Annotated[int, Field(ge=0)] = 100
    boot_timeout_seconds: Annotated[float, Field(gt=0)] = 480.0
    """A worker that has not registered after this long counts as no supply and is removed; boots known to be slow are
    given more time."""
    ghost_seconds: Annotated[float, Field(gt=0)] = 300.0
    """A Slurm node whose worker is gone for this long loses its record."""
    mode: Literal["act", "shadow"] = "act"
    """`shadow` decides, explains and logs, and changes nothing."""
    usd_per_hour: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """What all workers together may cost at most; None: no bound."""
    most: dict[ShapeName, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    """The most workers of a shape, where it has a bound of its own."""
    warm: dict[ShapeName, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    """Workers of a shape that stand also while nothing needs them."""
    gather_seconds: Annotated[float, Field(ge=0)] = 0.0
    """How long a job that needs a new worker may wait for others to be bought for together (`packing` alone)."""
    moves_per_minute: Annotated[int, Field(ge=1)] = 60
    """How many idle workers are drained in a minute at most."""


class ClusterBinding(Wire):
    """Everything about a cluster that is no secret: addresses, references, shapes, prices and policy."""

    schema_name: ClassVar[str] = "registry.cluster.v3"

    name: str
    state: Literal["active", "paused"] = "active"
    slurmrestd_url: str
    jwt_key: SecretReference
    operator: SlurmUser
    """The proxy's own service user for upkeep; draining and deleting nodes take slurmdbd's level Administrator."""
    partition: str = "main"
    shared_path: str = "/mnt/efs"
    """The shared folder as jobs see it."""
    catalogue: Catalogue
    policy: ScalingPolicy = ScalingPolicy()
    version: Annotated[int, Field(ge=1)] = 1
