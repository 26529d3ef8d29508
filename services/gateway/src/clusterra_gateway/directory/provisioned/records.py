"""The records of what a directory has provisioned: users, groups, and the marks of addresses."""

from typing import Annotated, Any

from clusterra_contracts.identity import Moment
from clusterra_runtime.store.item import Item
from pydantic import Field, ValidationError

from clusterra_gateway.accounts.records import Record
from clusterra_gateway.directory.provisioned.resources import Group, GroupMember, User

MAX_LINKED = 20
"""The most members who are known to be a provisioned user by an address that the user had before."""


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
