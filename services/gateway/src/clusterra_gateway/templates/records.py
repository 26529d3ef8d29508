"""Stores the templates of tenants. Each change is a conditional write, with its audit event.

| partition | sort key | item |
|---|---|---|
| `tenant#<tenant>` | `template#<id>` | the template: its versions' states, and what lists show of it |
| `template#<tenant>#<id>` | `version#<number>` | the definition of a version, as it was written |
| `schedules` | `<tenant>#<id>` | a schedule (`schedule`) |

A deleted template keeps its item, so that its numbers go on: a version is never another one later.
"""

from collections.abc import AsyncIterator
from typing import Annotated, Literal

from clusterra_contracts.events import AdminFact, AdminKind
from clusterra_contracts.identity import Moment
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.page import Prefix, all_items
from clusterra_runtime.store.store import Delete, Put, Store, Update, Write
from pydantic import Field

from clusterra_gateway.accounts.admin_events import AuditedWrites
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.records import Member, Record
from clusterra_gateway.templates.table import TEMPLATES

TEMPLATE_MARKS = Prefix("template#")
MAX_VERSIONS = 50
"""How many versions of a template are kept. The oldest one that is neither published nor the newest goes first."""

VersionState = Literal["draft", "approved", "rejected"]


class VersionMark(Record):
    """What is known of a version without its definition."""

    number: Annotated[int, Field(ge=1)]
    state: VersionState = "draft"
    author: str
    """The user name of whoever wrote it."""
    created_at: Moment
    reviewer: str = ""
    note: str = ""
    """What the reviewer said."""


class TemplateRecord(Record):
    """A template of a tenant."""

    template_id: str
    owner: str
    """The id of the member who made it."""
    versions: tuple[VersionMark, ...]
    """In the order of their numbers."""
    published: int | None = None
    """The version that everybody uses."""
    newest: int
    deleted: bool = False

    def version(self, number: int) -> VersionMark | None:
        """A version that is kept; None for another number."""
        return next((each for each in self.versions if each.number == number), None)

    def with_version(self, changed: VersionMark) -> "TemplateRecord":
        """This template with another mark of a version."""
        marks = tuple(changed if each.number == changed.number else each for each in self.versions)
        return self.model_copy(update={"versions": marks})

    @property
    def shown(self) -> int:
        """The version that is looked at: the published one, or the newest one while there is none."""
        return self.published if self.published is not None else self.newest


class StoredVersion(Record):
    """The definition of a version, as it was written, and as JSON of its model, which is fast to read."""

    definition: str
    model: str


class TemplateRecords:
    """The templates of all tenants. Every method may raise StoreUnavailable."""

    def __init__(self, directory: Directory, registry: Registry) -> None:
        self._store = directory.store
        self._audited = AuditedWrites(directory, registry)

    async def all(self, tenant: str) -> list[TemplateRecord]:
        """All templates of a tenant that are not deleted and can be read, in the order of their ids."""
        marks = _items(self._store, tenant, TEMPLATE_MARKS)
        read = [TemplateRecord.readable(item) async for item in marks]
        return [record for record in read if record is not None and not record.deleted]

    async def read(self, tenant: str, template_id: str) -> tuple[TemplateRecord, int] | None:
        """A template, deleted ones included, with the version of its item; None when there is none."""
        item = await self._store.get(TEMPLATES, _template_key(tenant, template_id))
        return None if item is None else (TemplateRecord.of(item), item.version)

    async def version(self, tenant: str, template_id: str, number: int) -> StoredVersion | None:
        """The definition of a version; None when there is none, or it cannot be read."""
        item = await self._store.get(TEMPLATES, _version_key(tenant, template_id, number))
        return None if item is None else StoredVersion.readable(item)

    async def write(
        self,
        actor: Member,
        record: TemplateRecord,
        *,
        at: int | None,
        kind: AdminKind,
        new: StoredVersion | None = None,
    ) -> TemplateRecord:
        """Writes a template over version `at` of its item (None: a new one). Returns it as it is stored.

        `new` is the definition of its newest version, where there is a new one. Raises TransactionCancelled after a
        conflicting write.
        """
        fact = AdminFact(kind=kind, actor=actor.user, subject=record.template_id)
        kept, gone = _bounded(record)
        key = _template_key(actor.tenant, record.template_id)
        change: Put | Update = Put(TEMPLATES, key, kept.attributes(), Absent())
        if at is not None:
            change = Update(TEMPLATES, key, set=kept.attributes(), condition=VersionIs(at))
        others = list[Write]()
        if new is not None:
            place = _version_key(actor.tenant, record.template_id, record.newest)
            others.append(Put(TEMPLATES, place, new.attributes(), Absent()))
        others += [Delete(TEMPLATES, _version_key(actor.tenant, record.template_id, number)) for number in gone]
        await self._audited.write(actor.tenant, [fact], change, others)
        return kept


async def forget_templates(store: Store, tenant: str) -> int:
    """Remove all templates of a tenant that is deleted. Returns how many items that were. Raises StoreError."""
    removed = 0
    async for item in _items(store, tenant):
        template_id = item.key.sk.removeprefix(TEMPLATE_MARKS.text)
        versions = await store.query(TEMPLATES, _version_key(tenant, template_id, 0).pk)
        # The template goes last: it leads to its versions.
        for each in (*versions.items, item):
            await store.delete(Delete(TEMPLATES, each.key))
            removed += 1
    return removed


def _items(store: Store, tenant: str, sort: Prefix | None = None) -> AsyncIterator[Item]:
    return all_items(lambda after: store.query(TEMPLATES, _tenant(tenant), sort=sort, cursor=after))


def _bounded(record: TemplateRecord) -> tuple[TemplateRecord, list[int]]:
    """The template with as many versions as are kept, and the numbers of those that go."""
    spare = [each.number for each in record.versions if each.number not in (record.published, record.newest)]
    gone = spare[: max(len(record.versions) - MAX_VERSIONS, 0)]
    kept = tuple(each for each in record.versions if each.number not in gone)
    return record.model_copy(update={"versions": kept}), gone


def _tenant(tenant: str) -> str:
    return f"tenant#{tenant}"


def _template_key(tenant: str, template_id: str) -> Key:
    return Key(_tenant(tenant), f"{TEMPLATE_MARKS.text}{template_id}")


def _version_key(tenant: str, template_id: str, number: int) -> Key:
    return Key(f"template#{tenant}#{template_id}", f"version#{number:06}")
