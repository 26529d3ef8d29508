"""A cluster's binding: what the other services must know of it. The gateway writes it, the others watch it."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from clusterra_contracts.identity import SlurmUser, Wire
from clusterra_contracts.shapes import Catalogue

SecretReference = Annotated[str, StringConstraints(pattern=r"^(file|kubernetes|aws-secretsmanager):.+$")]
"""Where a secret is kept; never the secret itself."""


class ScalingPolicy(Wire):
    """How the scaler decides for a cluster. Durations are seconds."""

    name: Literal["family"] = "family"
    idle_seconds: Annotated[float, Field(ge=0)] = 150.0
    """An idle worker is drained when it has run nothing for this long (customer value `scaleInCooldownSeconds`)."""
    max_workers: Annotated[int, Field(ge=0)] = 100
    boot_timeout_seconds: Annotated[float, Field(gt=0)] = 480.0
    """A worker that has not registered after this long counts as no supply and is removed; boots known to be slow are
    given more time."""
    ghost_seconds: Annotated[float, Field(gt=0)] = 300.0
    """A Slurm node whose worker is gone for this long loses its record."""


class ClusterBinding(Wire):
    """Everything about a cluster that is no secret: addresses, references, shapes, prices and policy."""

    schema_name: ClassVar[str] = "registry.cluster.v2"

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
