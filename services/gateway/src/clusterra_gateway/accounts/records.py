"""The items of the accounts table as models: tenants, domains, invitations, members, user names and API tokens."""

import operator
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, Literal, Self

import structlog
from clusterra_contracts.identity import ClusterRef, Id, Moment, SlurmUser, UserName
from clusterra_runtime.store.item import Attributes, Item
from clusterra_runtime.store.page import all_items
from clusterra_runtime.store.store import Store, Table
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from clusterra_gateway.accounts.roles import ROLES, Role, Scope, manages

log = structlog.get_logger()

MemberKind = Literal["person", "service_account"]
ALLOCATED = "allocated"
"""In place of the name of an identity source: Clusterra allocates the uids."""
SERVICE_ACCOUNT_ISSUER = "service-account"
"""In place of the URL of an issuer: nobody can sign in there."""
OPERATOR = "operator"
"""The owner of a user name that a cluster's operator has."""


class Record(BaseModel):
    """The attributes of a stored item."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @classmethod
    def of(cls, item: Item) -> Self:
        """Reads an item. Raises pydantic's ValidationError for one that this version cannot read."""
        return cls.model_validate(dict(item.attributes))

    @classmethod
    def readable(cls, item: Item) -> Self | None:
        """Reads one item of several. Logs an item that this version cannot read, and returns None for it."""
        try:
            return cls.of(item)
        except ValidationError as error:
            # Not the error's text: it repeats the record.
            told = {"record": cls.__name__, "key": item.key.sk, "problems": error.error_count()}
            log.error("stored_record_unreadable", **told)  # noqa: TRY400
            return None

    def attributes(self) -> Attributes:
        """The attributes to store."""
        attributes: dict[str, Any] = self.model_dump(mode="json")
        return attributes


class Mark(Record):
    """An item whose key contains all of its information."""


MARKS_PAGE = 1000


async def marked_places(store: Store, table: Table, partition: str) -> tuple[tuple[ClusterRef, str], ...]:
    """The clusters and ids that the marks of unfinished work in a partition name, by sort keys.

    A sort key is `<tenant>.<cluster>#<id>`. A malformed mark is logged and skipped. Raises StoreError.
    """
    places: list[tuple[ClusterRef, str]] = []
    async for mark in all_items(lambda after: store.query(table, partition, limit=MARKS_PAGE, cursor=after)):
        ref, _, name = mark.key.sk.rpartition("#")
        try:
            places.append((ClusterRef.from_key(ref), name))
        except ValidationError:
            log.error("mark_unreadable", partition=mark.key.pk, key=mark.key.sk)  # noqa: TRY400
    return tuple(places)


class TenantDeletion(Record):
    """Who deletes a tenant, and since when. With `removed_at` it is a tombstone, which keeps the id from others."""

    by: str
    since: Moment
    removed_at: Moment | None = None


class ClusterDeletion(Record):
    """A cluster's deletion while it is under way."""

    by: str
    since: Moment
    force: bool = False
    """Whether it is removed although its edge may have workers."""
    removing_since: Moment | None = None
    """When the wait for the edge ended: the cluster left the registry, and its records are being removed."""


class Tenant(Record):
    """A customer."""

    name: str
    domains: tuple[str, ...] = ()
    """The e-mail domains of its people, for those who look at the tenant: `Domain` decides."""
    issuers: tuple[str, ...] = ()
    usd_per_hour: float | None = None
    """The cap on all its clusters' workers together; None: only the clusters' own caps apply."""
    own_caps: dict[str, float | None] = Field(default_factory=dict)
    """By cluster, its own cap in USD per hour; None: an equal share of the rest of the tenant's cap."""
    identity_source: Id | None = None
    """The identity source of all clusters that name none; None: Clusterra allocates uids."""
    deletion: TenantDeletion | None = None


class Domain(Record):
    """An e-mail domain. People with a verified address in it belong to this tenant."""

    tenant: Id
    issuers: tuple[str, ...] = ()
    """The issuers that may assert addresses in this domain; empty: the platform's default issuer."""


class Invitation(Record):
    """An address that an operator has invited, for a member, an admin or an owner.

    They belong to this tenant unless another has the address's domain.
    """

    tenant: Id
    admin: bool = False
    """Also of an owner: the release before knows admins alone."""
    owner: bool = False

    @property
    def role(self) -> Role:
        """The role of whoever has the address."""
        if self.owner:
            return "owner"
        return "admin" if self.admin else "member"


class SentInvitation(Record):
    """An invitation that an admin has made. Whoever has its secret and this address may accept it, once."""

    email: str
    """In lower case."""
    role: Role
    secret_hash: str
    invited_by: str
    """The user name of the admin."""
    created_at: Moment
    valid_until: Moment


class Member(Record):
    """A person: `iss` and `sub` at the OIDC issuer, and the Slurm identity that is theirs for good.

    In a further tenant that the person belongs to, `issuer` ends with `#<tenant>`, which no issuer's URL does. So they
    are a member of their own there, with another id, name, uid and role.

    Or a service account, whose issuer is SERVICE_ACCOUNT_ISSUER and whose subject is `<tenant>/<name>`.

    The release before knows `admin` alone. Where it has changed that since, `admin` counts and not `role`.
    """

    issuer: str
    subject: str
    tenant: Id
    user: UserName
    uid: Annotated[int, Field(ge=1000)]
    email: str
    display_name: str = ""
    admin: bool = False
    role: Role = "member"
    role_given_at: Moment | None = None
    """When an admin gave the role; None while it comes from an invitation, which a sign-in may renew."""
    disabled: bool = False
    """A disabled member cannot sign in, and no credential of theirs works."""
    joined_at: Moment
    kind: MemberKind = "person"
    scopes: tuple[Scope, ...] | None = None
    """What the keys of a service account may be used for at most; None: all that its role may do."""
    deleted: bool = False
    """A deleted service account is disabled, too. Its record keeps its name and its uid from others."""

    @model_validator(mode="before")
    @classmethod
    def _as_the_release_before_left_it(cls, data: dict[str, Any]) -> dict[str, Any]:
        admin = bool(data.get("admin", False))
        role = data.get("role", "member")
        if role not in ROLES or manages(role) == admin:
            return data
        return data | {"role": "admin" if admin else "member"}

    def with_role(self, role: Role, *, given_at: datetime | None = None) -> "Member":
        """This member with another role. Give the time when an admin gives it."""
        changes = {"role": role, "admin": manages(role), "role_given_at": given_at or self.role_given_at}
        return self.model_copy(update=changes)

    @property
    def id(self) -> str:
        """Identifies the person in sessions and keys."""
        return member_id(self.issuer, self.subject)

    @property
    def first_id(self) -> str:
        """The id of this person in the tenant that they first belonged to, as which they sign in."""
        return member_id(self.issuer.partition("#")[0], self.subject)

    def further_id(self, tenant: str) -> str:
        """The id that this person has in a further tenant."""
        return member_id(further_issuer(self.issuer.partition("#")[0], tenant), self.subject)

    @property
    def slurm_user(self) -> SlurmUser:
        """The identity that the person's jobs run as. Every person has a group of their own."""
        return SlurmUser(name=self.user, uid=self.uid, gid=self.uid)


class UserNameReservation(Record):
    """A Slurm user name of a tenant that is taken for good."""

    uid: int
    owner: str
    """A member's id, or `OPERATOR`."""
    email: str | None = None
    """The member's address in lower case. None where an earlier release wrote it, and for `OPERATOR`."""


class ApiToken(Record):
    """A bearer token. Only the hash of its secret is stored."""

    name: str
    secret_hash: str
    created_at: Moment
    valid_until: Moment
    scopes: tuple[Scope, ...] | None = None
    """What the token may be used for; None: all that its owner may do."""
    last_used_at: Annotated[Moment | None, Field(exclude_if=operator.not_)] = None
    """The hour in which it was last used. None is left out of what is written: earlier releases know no such field."""


def member_id(issuer: str, subject: str) -> str:
    """The id of a person at an issuer: 32 hexadecimal digits."""
    return sha256(f"{issuer}\n{subject}".encode()).hexdigest()[:32]


def further_issuer(issuer: str, tenant: str) -> str:
    """What a person's record in a further tenant has for an issuer."""
    return f"{issuer}#{tenant}"


def service_account_id(tenant: str, name: str) -> str:
    """The member id of a tenant's service account."""
    return member_id(SERVICE_ACCOUNT_ISSUER, f"{tenant}/{name}")


def expiry(moment: datetime) -> int:
    """The moment as the store expects an item's expiry: in whole epoch seconds."""
    return int(moment.timestamp())
