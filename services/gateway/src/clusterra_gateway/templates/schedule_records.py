"""Stores schedules: all in one partition, so that whoever submits them finds those that are due."""

import secrets
import time

from clusterra_contracts.events import AdminFact, AdminKind
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.outbox_item import OutboxMessage
from clusterra_runtime.store.page import Prefix
from clusterra_runtime.store.store import ConditionFailed, Delete, Put, Update

from clusterra_gateway.accounts.admin_events import cluster_event
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.records import Member
from clusterra_gateway.templates.schedule import Schedule
from clusterra_gateway.templates.table import TEMPLATES

SCHEDULES = "schedules"
DELETED = "deleted"
"""The attribute of a deleted schedule, which stays until its events are sent."""


class ScheduleRecords:
    """The schedules of all tenants. Every method may raise StoreUnavailable."""

    def __init__(self, directory: Directory) -> None:
        self._outbox = directory.outbox
        self._store = directory.store

    async def of_tenant(self, tenant: str) -> list[Schedule]:
        """The schedules of a tenant that can be read."""
        return [schedule for schedule, _ in await self._all(Prefix(f"{tenant}#"))]

    async def all(self) -> list[tuple[Schedule, int]]:
        """All schedules that can be read, each with the version of its item."""
        return await self._all(None)

    async def read(self, tenant: str, schedule_id: str) -> tuple[Schedule, int] | None:
        """A schedule with the version of its item; None when there is none."""
        item = await self._store.get(TEMPLATES, _key(tenant, schedule_id))
        return None if item is None or _is_deleted(item) else (Schedule.of(item), item.version)

    async def create(self, actor: Member, schedule: Schedule) -> None:
        """Store a new schedule, with its event."""
        put = Put(TEMPLATES, _key(schedule.tenant, schedule.id), schedule.attributes(), Absent())
        await self._outbox.write(put, [_event(actor, schedule, "schedule.created")])

    async def replace(self, schedule: Schedule, version: int) -> bool:
        """Write what became of a tick. Returns False where the schedule was changed in the meantime."""
        key = _key(schedule.tenant, schedule.id)
        try:
            await self._store.write(Update(TEMPLATES, key, set=schedule.attributes(), condition=VersionIs(version)))
        except ConditionFailed:
            return False
        return True

    async def delete(self, actor: Member, schedule: Schedule, version: int) -> bool:
        """Delete a schedule, with its event. Returns False where it was changed in the meantime.

        The item expires, so that the event can be sent before it goes.
        """
        key = _key(schedule.tenant, schedule.id)
        gone = Update(
            TEMPLATES, key, set={DELETED: True}, condition=VersionIs(version), expires_at=int(time.time()) + 7 * 86_400
        )
        messages = [_event(actor, schedule, "schedule.deleted")]
        try:
            await self._outbox.write(gone, messages)
        except ConditionFailed:
            return False
        return True

    async def forget(self, ref: ClusterRef) -> int:
        """Remove the schedules of a cluster that is deleted. Returns how many that were."""
        removed, cursor = 0, None
        while True:
            page = await self._store.query(TEMPLATES, SCHEDULES, sort=Prefix(f"{ref.tenant}#"), cursor=cursor)
            for item in page.items:
                if item.attributes.get("cluster") == ref.cluster:
                    await self._store.delete(Delete(TEMPLATES, item.key))
                    removed += 1
            if (cursor := page.cursor) is None:
                return removed

    async def _all(self, sort: Prefix | None) -> list[tuple[Schedule, int]]:
        found: list[tuple[Schedule, int]] = []
        cursor = None
        while True:
            page = await self._store.query(TEMPLATES, SCHEDULES, sort=sort, cursor=cursor)
            kept = [item for item in page.items if not _is_deleted(item)]
            found += [(read, item.version) for item in kept if (read := Schedule.readable(item)) is not None]
            if (cursor := page.cursor) is None:
                return found


def _event(actor: Member, schedule: Schedule, kind: AdminKind) -> OutboxMessage:
    fact = AdminFact(kind=kind, actor=actor.user, subject=schedule.id)
    return cluster_event(
        ClusterRef(tenant=schedule.tenant, cluster=schedule.cluster), fact, version=secrets.token_hex(8)
    )


def _is_deleted(item: Item) -> bool:
    return bool(item.attributes.get(DELETED, False))


def _key(tenant: str, schedule_id: str) -> Key:
    return Key(SCHEDULES, f"{tenant}#{schedule_id}")
