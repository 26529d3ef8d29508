"""The identities in messages: tenants, clusters, workers and Slurm users.

An id becomes a token of a NATS subject and of a credential's permission list, where `*`, `>` and `.` have special
meaning. Therefore every id is checked here, when it is created and again wherever credentials are made.
"""

from datetime import UTC, datetime
from typing import Annotated, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, model_validator

Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,38}$")]
"""The id of a tenant or a cluster: one subject token that cannot contain a wildcard."""

WorkerName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
"""The name of a worker's pod (an RFC 1123 label) and of its Slurm node."""

ShapeName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,38}$")]

JobId = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,9}(_[0-9]{1,7})?$")]
"""A job id in Slurm's format: `42` for a job, `42_7` for task 7 of array 42."""

UserName = Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_-]{0,30}$")]

GroupName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$")]

HomePath = Annotated[str, StringConstraints(pattern=r"^(/[^/:\s\x00-\x1f\x7f]+)+$", max_length=255)]
"""The absolute path of a home directory."""

MAX_GROUPS = 64
"""The most groups besides the primary one. All of them are in every token of the user."""


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is UTC:
        return moment
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


PosixId = Annotated[int, Field(ge=1000, le=2_000_000_000)]
"""A uid or a gid. Lower ones are the system's: a token with one of them could act as a daemon."""


class SlurmUser(Wire):
    """The identity that a job runs under. A name keeps its uid forever; there is no OS account."""

    name: UserName
    uid: PosixId
    gid: PosixId
    group: GroupName | None = None
    """The name of the group with this gid; None: the user's own name."""
    groups: tuple[int, ...] = ()
    """The gids of further groups."""
    group_names: tuple[GroupName, ...] = ()
    """The names of the `groups`, in their order; empty where they are unknown."""
    home: HomePath | None = None
    """The home directory in jobs; None: `home/<name>` in the shared folder."""

    @model_validator(mode="after")
    def _a_name_for_each_group(self) -> Self:
        if self.group_names and len(self.group_names) != len(self.groups):
            raise ValueError("group_names must be empty, or have one name for each of the groups")
        return self

    @property
    def gid_of(self) -> dict[str, int]:
        """Name -> gid of all groups. A group whose name is unknown is called `g<gid>`."""
        names = self.group_names or tuple(f"g{gid}" for gid in self.groups)
        others = {name: gid for name, gid in zip(names, self.groups, strict=True) if gid != self.gid}
        return {**others, self.group or self.name: self.gid}

    def home_in(self, shared_path: str) -> str:
        """The home directory in jobs, where the shared folder has this path."""
        return self.home or f"{shared_path}/home/{self.name}"
