"""The users and groups of SCIM as far as Clusterra keeps them, and their records. Whatever else is sent is left out.

The extensions have the attributes of RFC 2307 (`posixAccount`, `posixGroup`): an identity source of the kind `scim`
makes the users of clusters of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from clusterra_contracts.identity import GroupName, HomePath, Moment, UserName
from clusterra_runtime.store.item import Item
from pydantic import Field, StringConstraints, ValidationError
from scim2_models import (
    URN,
    AnyExtension,
    CaseExact,
    ComplexAttribute,
    Extension,
    Mutability,
    Required,
    Resource,
    Uniqueness,
)

from clusterra_gateway.accounts.keyspace import ScimKind
from clusterra_gateway.accounts.records import Record

MAX_EMAILS = 8
MAX_MEMBERS = 2_000
"""The most members of a group."""
MAX_LINKED = 20
"""The most members who are known to be a provisioned user by an address that the user had before."""

Text = Annotated[str, StringConstraints(max_length=256, pattern=r"^[^\x00-\x1f\x7f]*$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]
Number = Annotated[int | None, Field(ge=1000, le=2_000_000_000)]
"""A uid or a gid, as `PosixId`. Its type must be plain for the library to describe it."""
ResourceId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]


class PersonName(ComplexAttribute):
    """The parts of a person's name."""

    formatted: Text | None = None
    family_name: Text | None = None
    given_name: Text | None = None


class Email(ComplexAttribute):
    """An e-mail address of a person."""

    value: Annotated[str, StringConstraints(max_length=320, pattern=r"^[^@\s]+@[^@\s]+$")] | None = None
    display: Text | None = None
    type: Text | None = None
    primary: bool | None = None


class PosixUser(Extension):
    """The user whom a person is on clusters whose identity source is SCIM: `posixAccount` of RFC 2307."""

    __schema__ = URN("urn:ietf:params:scim:schemas:extension:clusterra:2.0:User")

    uid: Annotated[UserName | None, CaseExact.true] = None
    """The user name; without one, the part of `userName` before the @."""
    uid_number: Number = None
    """The uid. Without one, the person is nobody on these clusters."""
    gid_number: Number = None
    """The gid of the primary group."""
    home_directory: Annotated[HomePath | None, CaseExact.true] = None


class PosixGroup(Extension):
    """The Unix group that a group is: `posixGroup` of RFC 2307."""

    __schema__ = URN("urn:ietf:params:scim:schemas:extension:clusterra:2.0:Group")

    cn: Annotated[GroupName | None, CaseExact.true] = None
    """The name; without one, `displayName`."""
    gid_number: Number = None
    """The gid. Without one, the group has no meaning on clusters."""


class CoreUser(Resource[AnyExtension]):
    """A person, as their directory describes them."""

    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:User")

    external_id: Annotated[Text | None, CaseExact.true] = None
    user_name: Annotated[Name | None, Uniqueness.server, Required.true] = None
    name: PersonName | None = None
    display_name: Text | None = None
    active: bool | None = None
    emails: Annotated[list[Email] | None, Field(max_length=MAX_EMAILS)] = None


class GroupMember(ComplexAttribute):
    """A user in a group."""

    value: Annotated[ResourceId | None, Mutability.immutable, CaseExact.true] = None
    display: Text | None = None
    type: Text | None = None


class CoreGroup(Resource[AnyExtension]):
    """A group of users."""

    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:Group")

    external_id: Annotated[Text | None, CaseExact.true] = None
    display_name: Annotated[Name | None, Uniqueness.server, Required.true] = None
    members: Annotated[list[GroupMember] | None, Field(max_length=MAX_MEMBERS)] = None


User = CoreUser[PosixUser]
Group = CoreGroup[PosixGroup]


class Unreadable(Exception):
    """A record that this version cannot read: a newer one wrote it, or it is damaged. The text names it alone."""


class StoredUser(Record):
    """A user whom a directory has provisioned."""

    resource: dict[str, Any]
    """The user in SCIM's own form, without `id` and `meta`."""
    active: bool
    addresses: tuple[str, ...]
    """The addresses by which the person signs in: those of the user that are in the tenant's domains."""
    members: Annotated[tuple[str, ...], Field(max_length=MAX_LINKED)] = ()
    """The ids of members whose address was one of the user's before."""
    created_at: Moment
    changed_at: Moment

    @property
    def user(self) -> User:
        """The user. Raises Unreadable."""
        try:
            return User.model_validate(self.resource)
        except ValidationError:
            raise Unreadable("a provisioned user") from None


class StoredGroup(Record):
    """A group that a directory has provisioned. Its members are apart, in the short form of their ids."""

    resource: dict[str, Any]
    """The group in SCIM's own form, without `id`, `meta` and `members`."""
    members: tuple[str, ...]
    """The ids of users."""
    created_at: Moment
    changed_at: Moment

    @property
    def group(self) -> Group:
        """The group with its members. Raises Unreadable."""
        try:
            group = Group.model_validate(self.resource)
            group.members = [GroupMember(value=each, type="User") for each in self.members] or None
        except ValidationError:
            raise Unreadable("a provisioned group") from None
        return group


@dataclass(frozen=True, slots=True)
class Kind[R: (User, Group), S: (StoredUser, StoredGroup)]:
    """A kind of resources: its model, its record, and the resource that a record holds."""

    name: ScimKind
    model: type[R]
    record: type[S]
    resource_of: Callable[[S], R]
    """Raises Unreadable."""


USERS = Kind("user", User, StoredUser, lambda record: record.user)
GROUPS = Kind("group", Group, StoredGroup, lambda record: record.group)


class AddressMark(Record):
    """An address of a provisioned user. It stays for a while when the user is deleted, without `user_id`."""

    user_id: str | None
    active: bool


class IndexMark(Record):
    """The resource that a name or an externalId belongs to."""

    resource_id: str


def read_record[R: Record](model: type[R], item: Item) -> R:
    """The record of an item. Raises Unreadable."""
    try:
        return model.of(item)
    except ValidationError:
        raise Unreadable(item.key.sk) from None
