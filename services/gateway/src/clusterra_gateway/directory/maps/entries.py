"""The entries of an identity map: which user a person is at a site."""

from dataclasses import dataclass
from typing import Annotated, Self

from clusterra_contracts.identity import MAX_GROUPS, GroupName, HomePath, Id, PosixId, SlurmUser, UserName
from pydantic import AfterValidator, Field, StringConstraints, model_validator

from clusterra_gateway.accounts.records import Record
from clusterra_gateway.accounts.slurm_identities import RESERVED

MAX_ENTRIES = 20_000
"""The most users of a map. More are refused, and said so."""
MAX_NAMES = 5 * MAX_ENTRIES
"""The most names of a map, with those of users who are gone: a name keeps its uid for good."""
MAX_EMAILS = 8


def _not_reserved(name: str) -> str:
    if name in RESERVED:
        raise ValueError(f"the name {name} is reserved: no user gets it")
    return name


MappedName = Annotated[UserName, AfterValidator(_not_reserved)]
EmailAddress = Annotated[str, StringConstraints(pattern=r"^[^@\s]+@[^@\s]+$", max_length=320, to_lower=True)]


@dataclass(frozen=True, slots=True)
class MapRef:
    """The map of one identity source of a tenant."""

    tenant: str
    source: Id


class MapEntry(Record):
    """A user of a site, and the person or service account who they are here.

    A person is recognised by an address that their issuer has verified; a service account by the user's name.
    """

    name: MappedName
    uid: PosixId
    gid: PosixId
    group: GroupName | None = None
    """The name of the primary group; None: that of the user."""
    groups: Annotated[tuple[PosixId, ...], Field(max_length=MAX_GROUPS)] = ()
    """The gids of further groups."""
    group_names: Annotated[tuple[GroupName, ...], Field(max_length=MAX_GROUPS)] = ()
    """The names of `groups`, in their order; empty where they are unknown."""
    home: HomePath | None = None
    """The home directory in jobs; None: a folder of the cluster's shared folder."""
    emails: Annotated[tuple[EmailAddress, ...], Field(max_length=MAX_EMAILS)] = ()
    service_account: bool = False
    """Whether this is the user of the service account with this name, and of no person."""
    active: bool = True
    """Whether the person may have jobs. An entry that its source lacks is kept inactive: its name keeps its uid."""

    @model_validator(mode="after")
    def _can_be_recognised(self) -> Self:
        if self.service_account == bool(self.emails):
            raise ValueError("a user has either `emails` of a person, or `service_account: true`")
        if self.group_names and len(self.group_names) != len(self.groups):
            raise ValueError("group_names must be empty, or have one name for each of the groups")
        return self

    @property
    def slurm_user(self) -> SlurmUser:
        """The identity that the person's jobs run as."""
        return SlurmUser(
            name=self.name,
            uid=self.uid,
            gid=self.gid,
            group=self.group,
            groups=self.groups,
            group_names=self.group_names,
            home=self.home,
        )


@dataclass(frozen=True, slots=True)
class Refused:
    """An entry of a source that the map does not take, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class ReadMap:
    """What a source says: its entries, and the ones that could not be read."""

    entries: tuple[MapEntry, ...]
    refused: tuple[Refused, ...] = ()
