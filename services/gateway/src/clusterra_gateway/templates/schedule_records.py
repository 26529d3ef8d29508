"""The stored schedules, by tenant and by their next tick."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime
from itertools import batched

from clusterra_contracts.events import AdminFact, AdminKind
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Attributes, Item, Key
from clusterra_runtime.store.outbox_item import INDEX_PARTITIONS, OutboxMessage, index_partition
from clusterra_runtime.store.page import Between, Prefix, all_items
from clusterra_runtime.store.store import ConditionFailed, Delete, Put, Update

from clusterra_gateway.accounts.admin_events import cluster_event
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.records import Member
from clusterra_gateway.templates.schedule import Schedule
from clusterra_gateway.templates.table import DUE, TEMPLATES

SCHEDULES = "schedules"
DELETED = "deleted"
"""The attribute of a deleted schedule, which stays until its events are sent."""
PAUSED = "paused"
"""The partition of the index that has the paused schedules. Nobody reads it. If they had none, the release before
would put them back among those that are due."""
MOST_DUE = 10_000
"""The most due schedules of a partition of the index that are read at a time: those that are due the longest."""
READS_AT_A_TIME = 16


class ScheduleRecords:
    """The schedules of all tenants. Every method may raise StoreUnavailable."""

    def __init__(self, directory: Directory) -> None:
        self._outbox = directory.outbox
        self._store = directory.store

    async def of_tenant(self, tenant: str) -> list[Schedule]:
        """The schedules of a tenant that can be read."""
        items = [item async for item in self._items(Prefix(f"{tenant}#")) if not _is_deleted(item)]
        return [read for item in items if (read := Schedule.readable(item)) is not None]

    async def due(self, at: datetime) -> list[tuple[Schedule, int]]:
        """The readable schedules with a tick that has come, each with the version of its item. Reads no others."""
        ticks = Between("0", f"{at:%Y-%m-%dT%H:%M:%S}~")
        keys = [
            key
            for partition in range(INDEX_PARTITIONS)
            for key in await self._store.query_index(TEMPLATES, DUE, str(partition), sort=ticks, limit=MOST_DUE)
        ]
        found: list[tuple[Schedule, int]] = []
        for some in batched(keys, READS_AT_A_TIME):
            for item in await asyncio.gather(*(self._store.get(TEMPLATES, key) for key in some)):
                # The index may lag behind.
                if item is not None and not _is_deleted(item) and (schedule := Schedule.readable(item)) is not None:
                    found.append((schedule, item.version))
        return [each for each in found if not each[0].paused and each[0].latest(at) is not None]

    async def add_missing_to_index(self) -> None:
        """Reads all schedules, and puts those into the index of `due` that the release before has made without it."""
        async for item in self._items(None):
            if not _is_deleted(item) and DUE.partition not in item.attributes:
                place, unchanged = {DUE.partition: index_partition(item.key)}, VersionIs(item.version)
                with suppress(ConditionFailed):
                    await self._store.write(
                        Update(TEMPLATES, item.key, set=place, condition=unchanged, keep_version=True)
                    )

    async def read(self, tenant: str, schedule_id: str) -> tuple[Schedule, int] | None:
        """A schedule with the version of its item; None when there is none."""
        item = await self._store.get(TEMPLATES, _key(tenant, schedule_id))
        return None if item is None or _is_deleted(item) else (Schedule.of(item), item.version)

    async def create(self, actor: Member, schedule: Schedule) -> None:
        """Store a new schedule, with its event."""
        put = Put(TEMPLATES, _key(schedule.tenant, schedule.id), _attributes(schedule), Absent())
        await self._outbox.write(put, [_event(actor, schedule, "schedule.created")])

    async def replace(self, schedule: Schedule, version: int) -> bool:
        """Write what became of a tick. Returns False where the schedule was changed in the meantime."""
        try:
            await self._store.write(_update(schedule, version))
        except ConditionFailed:
            return False
        return True

    async def change(self, actor: Member, schedule: Schedule, version: int) -> None:
        """Write a schedule that somebody has changed, with its event. Raises ConditionFailed as `delete` does."""
        await self._outbox.write(_update(schedule, version), [_event(actor, schedule, "schedule.changed")])

    async def delete(self, actor: Member, schedule: Schedule, version: int) -> None:
        """Delete a schedule, with its event. Raises ConditionFailed where it was changed in the meantime.

        The item expires, so that the event can be sent before it goes.
        """
        key = _key(schedule.tenant, schedule.id)
        gone = Update(
            TEMPLATES,
            key,
            set={DELETED: True},
            remove=(DUE.partition,),
            condition=VersionIs(version),
            expires_at=int(time.time()) + 7 * 86_400,
        )
        await self._outbox.write(gone, [_event(actor, schedule, "schedule.deleted")])

    async def forget(self, ref: ClusterRef) -> int:
        """Remove the schedules of a cluster that is deleted. Returns how many that were."""
        removed = 0
        async for item in self._items(Prefix(f"{ref.tenant}#")):
            if item.attributes.get("cluster") == ref.cluster:
                await self._store.delete(Delete(TEMPLATES, item.key))
                removed += 1
        return removed

    def _items(self, sort: Prefix | None) -> AsyncIterator[Item]:
        return all_items(lambda after: self._store.query(TEMPLATES, SCHEDULES, sort=sort, cursor=after))


def _event(actor: Member, schedule: Schedule, kind: AdminKind) -> OutboxMessage:
    fact = AdminFact(kind=kind, actor=actor.user, subject=schedule.id, detail=schedule.name)
    return cluster_event(
        ClusterRef(tenant=schedule.tenant, cluster=schedule.cluster), fact, version=secrets.token_hex(8)
    )


def _update(schedule: Schedule, version: int) -> Update:
    attributes = _attributes(schedule)
    # An empty field is left out of what is written.
    empty = tuple(name for name in Schedule.model_fields if name not in attributes)
    key, unchanged = _key(schedule.tenant, schedule.id), VersionIs(version)
    return Update(TEMPLATES, key, set=attributes, remove=empty, condition=unchanged)


def _attributes(schedule: Schedule) -> Attributes:
    place = PAUSED if schedule.paused else index_partition(_key(schedule.tenant, schedule.id))
    return {**schedule.attributes(), DUE.partition: place}


def _is_deleted(item: Item) -> bool:
    return bool(item.attributes.get(DELETED, False))


def _key(tenant: str, schedule_id: str) -> Key:
    return Key(SCHEDULES, f"{tenant}#{schedule_id}")
