"""The identities in messages: tenants, clusters, workers and Slurm users.

An id becomes a token of a NATS subject and of a credential's permission list, where `*`, `>` and `.` have special
meaning. Therefore every id is checked here, when it is created and again wherever credentials are made.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    StringConstraints,
    ValidationInfo,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,38}$")]
"""The id of a tenant or a cluster: one subject token that cannot contain a wildcard."""

WorkerName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
"""The name of a worker's pod (an RFC 1123 label) and of its Slurm node."""

ShapeName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,38}$")]

TEMPLATE_ID_PATTERN = "[a-z0-9][a-z0-9-]{0,63}"
"""The pattern of the whole id of a template."""

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

MAX_AGE = timedelta(days=3653)
"""How long before its arrival a message from outside may say that something happened: ten years."""
MAX_CLOCK_AHEAD = timedelta(days=1)
"""How far the clock of a sender may be ahead."""
_ARRIVED_AT = "arrived_at"


def arrival(at: datetime | None = None) -> dict[str, Any]:
    """The validation context of a message from outside, which arrived at a moment; None: now."""
    return {_ARRIVED_AT: now() if at is None else at}


@dataclass(frozen=True, slots=True)
class AroundArrival:
    """Bounds a time in a message from outside around its arrival. Without an arrival it bounds nothing.

    So a stored record stays readable for ever, and what an agent sends is refused at the boundary.
    """

    before: timedelta
    after: timedelta

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Adds the check to the schema of the type."""
        return core_schema.with_info_after_validator_function(self._check, handler(source))

    def _check(self, moment: datetime, info: ValidationInfo) -> datetime:
        arrived_at = None if info.context is None else info.context.get(_ARRIVED_AT)
        if arrived_at is not None and not -self.before <= moment - arrived_at <= self.after:
            raise ValueError("the time is too far from the time of its arrival")
        return moment


PastMoment = Annotated[Moment, AroundArrival(MAX_AGE, MAX_CLOCK_AHEAD)]
"""When something happened, by the sender's clock."""
NearMoment = Annotated[Moment, AroundArrival(MAX_AGE, MAX_AGE)]
"""When something happened or will happen, by the sender's clock."""


LATEST = datetime(9999, 1, 1, tzinfo=UTC)
"""The latest time that is read from a number of seconds. It leaves a year of the calendar for calculations."""


def from_epoch(seconds: float) -> datetime:
    """The moment so many seconds after 1970, between 1970 and `LATEST`: a file or a job may have any time."""
    return datetime.fromtimestamp(min(max(seconds, 0.0), LATEST.timestamp()), UTC)


def has_happened(moment: datetime, arrived_at: datetime) -> bool:
    """Whether a time that was told at `arrived_at` is within the bounds of `PastMoment`."""
    return -MAX_AGE <= moment - arrived_at <= MAX_CLOCK_AHEAD


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
