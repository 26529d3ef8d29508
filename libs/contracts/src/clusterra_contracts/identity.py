"""The identities in messages: tenants, clusters, workers and Slurm users.

An id becomes a token of a NATS subject and of a credential's permission list, where `*`, `>` and `.` have special
meaning. Therefore every id is checked here, when it is created and again wherever credentials are made.
"""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,38}$")]
"""The id of a tenant or a cluster: one subject token that cannot contain a wildcard."""

WorkerName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
"""The name of a worker's pod (an RFC 1123 label) and of its Slurm node."""

ShapeName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,38}$")]

JobId = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,9}(_[0-9]{1,7})?$")]
"""A job id in Slurm's format: `42` for a job, `42_7` for task 7 of array 42."""

UserName = Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_-]{0,30}$")]


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("the time is outside of the years 1 to 9999 in UTC") from None


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc), Field(json_schema_extra={"format": "date-time"})]
"""A time-zone aware timestamp, kept in UTC."""


def now() -> datetime:
    """The current time in UTC."""
    return datetime.now(UTC)


class Wire(BaseModel):
    """A message or a part of one: immutable. Unknown fields are ignored, so that newer senders can add fields."""

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
        """The reverse of `key`. Raises pydantic's ValidationError (a ValueError) for an invalid key."""
        tenant, _, cluster = key.partition(".")
        return cls(tenant=tenant, cluster=cluster)


class SlurmUser(Wire):
    """The identity that a job runs under. A name keeps its uid in a tenant forever; there is no OS account."""

    name: UserName
    uid: Annotated[int, Field(ge=1000, le=2_000_000_000)]
    gid: Annotated[int, Field(ge=1000, le=2_000_000_000)]
    groups: tuple[int, ...] = ()
