"""Who a message is about: tenants, clusters, workers and the Slurm identity of a user.

An id becomes a token of a NATS subject and of a credential's permission list, where `*`, `>` and `.` have
meaning, so every id is checked here, at creation and again wherever credentials are made.
"""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,38}$")]
"""A tenant's or a cluster's id: one subject token that no wildcard can hide in."""

WorkerName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
"""One name for a worker's pod (RFC 1123 label) and for its Slurm node."""

ShapeName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,38}$")]

JobId = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,9}(_[0-9]{1,7})?$")]
"""Slurm's own spelling: `42` for a job, `42_7` for task 7 of array 42."""

UserName = Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_-]{0,30}$")]


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


Moment = Annotated[datetime, AfterValidator(_in_utc), Field(json_schema_extra={"format": "date-time"})]
"""A time-zone aware moment, kept in UTC."""


def now() -> datetime:
    """The present moment in UTC."""
    return datetime.now(UTC)


class Wire(BaseModel):
    """A message or a part of one: immutable; unknown fields are ignored so that newer senders can add some."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class TenantRef(Wire):
    """A customer. Read from the subject of a message, never from its body."""

    tenant: Id

    def __str__(self) -> str:
        return self.tenant


class ClusterRef(Wire):
    """One Slurm cluster of a tenant. Read from the subject of a message, never from its body."""

    tenant: Id
    cluster: Id

    def __str__(self) -> str:
        return f"{self.tenant}/{self.cluster}"

    @property
    def key(self) -> str:
        """The cluster's key in the `registry` bucket."""
        return f"{self.tenant}.{self.cluster}"

    @classmethod
    def from_key(cls, key: str) -> "ClusterRef":
        """The inverse of `key`; raises pydantic's ValidationError (a ValueError) for anything else."""
        tenant, _, cluster = key.partition(".")
        return cls(tenant=tenant, cluster=cluster)


class SlurmUser(Wire):
    """The identity a job runs under. One name has one uid in a tenant, for good; there is no OS account."""

    name: UserName
    uid: Annotated[int, Field(ge=1000, le=2_000_000_000)]
    gid: Annotated[int, Field(ge=1000, le=2_000_000_000)]
    groups: tuple[int, ...] = ()
