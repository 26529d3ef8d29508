"""Schedules, templates that are submitted at certain times: when each is due, what is missed, how they are stored."""

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import batched, islice, pairwise, takewhile
from typing import Annotated, Any, Literal

from clusterra_contracts.events import AdminFact, AdminKind
from clusterra_contracts.identity import ClusterRef, Id, Moment
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Attributes, Item, Key
from clusterra_runtime.store.outbox_item import INDEX_PARTITIONS, OutboxMessage, index_partition
from clusterra_runtime.store.page import Between, Prefix, all_items
from clusterra_runtime.store.store import ConditionFailed, Delete, Put, Update
from clusterra_templates.parts import TemplateId
from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, Field

from clusterra_gateway.accounts.admin_events import cluster_event
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.records import Member, Record
from clusterra_gateway.idempotency.key import KEEP_SECONDS
from clusterra_gateway.submission.models import ConfirmedCost
from clusterra_gateway.templates.table import DUE, TEMPLATES

LEAST_SECONDS = 300
"""The shortest time between two ticks."""
LOOKED_AT = 400
"""The ticks whose distances are looked at: more than a day of the fastest schedule."""
LOOKED_AHEAD = timedelta(days=36_525)
"""How far ahead. Some ticks are decades apart, and dates end with the year 9999."""
LATE = timedelta(minutes=10)
"""A tick that was not submitted for this long is missed."""
OLDEST = timedelta(seconds=KEEP_SECONDS // 2)
"""A tick that is older is never submitted: the key of its submit lives twice as long, and without it a second job
could be made."""

_FIELD = re.compile(r"[0-9A-Za-z*/,-]{1,100}")

Missed = Literal["skip", "last"]
"""What is done about ticks that were missed: none of them is submitted, or the last one."""


def _cron(text: str) -> str:
    try:
        CronSim(text, datetime.now(UTC))
    except CronSimError as error:
        raise ValueError(str(error)) from None
    return text


class Schedule(Record):
    """A schedule as it is stored. Times are in UTC."""

    id: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    tenant: str
    cluster: Id
    name: str
    member: str
    """The id of its owner. Its jobs run as this person."""
    template_id: TemplateId
    params: dict[str, Any]
    inputs: dict[str, Any]
    sbatch_override: dict[str, Any]
    confirmed_usd_per_hour: ConfirmedCost = None
    """What its owner has confirmed for each of its jobs."""
    cron: Annotated[str, AfterValidator(_cron)]
    missed: Missed
    created_at: Moment
    next_tick: Moment
    last_tick: Moment | None = None
    last_outcome: str = ""
    """What became of the last tick, for the owner to read."""
    last_job: str | None = None
    last_run: str | None = None

    def due(self, at: datetime) -> datetime | None:
        """The tick to submit now; None if none is due, or all due ticks were missed and are not made up for."""
        tick = self.latest(at)
        if tick is None or at - tick > OLDEST:
            return None
        return tick if self.missed == "last" or at - tick <= LATE else None

    def latest(self, at: datetime) -> datetime | None:
        """The last tick that has come and is not dealt with yet; None where none has come."""
        if self.next_tick > at:
            return None
        # Ticks that are too old are not counted one by one.
        tick = max(self.next_tick, next_tick(self.cron, at - OLDEST - timedelta(days=1)))
        if tick > at:
            return self.next_tick
        for following in CronSim(self.cron, tick):
            if following > at:
                break
            tick = following
        return tick

    def after(self, tick: datetime, outcome: str, **changes: Any) -> "Schedule":
        """This schedule once a tick, and all before it, are dealt with."""
        return self.model_copy(
            update={"last_tick": tick, "last_outcome": outcome, "next_tick": next_tick(self.cron, tick), **changes}
        )

    def key(self, tick: datetime) -> str:
        """The idempotency key of a tick's submit. Whoever submits it, there is one job."""
        return f"schedule-{self.id}-{int(tick.timestamp())}"


class InvalidCron(ValueError):
    """Text that is no schedule. It says why."""


def check_cron(text: str, at: datetime) -> datetime:
    """The first tick of an expression with five fields, in UTC, after `at`. Raises InvalidCron."""
    fields = text.split()
    if len(fields) != 5 or not all(map(_FIELD.fullmatch, fields)):
        raise InvalidCron("it must have five fields: minute, hour, day of the month, month, day of the week")
    try:
        soon = takewhile(lambda tick: tick < at + LOOKED_AHEAD, CronSim(text, at))
        ticks = list(islice(soon, LOOKED_AT))
    except CronSimError as error:
        raise InvalidCron(str(error)) from None
    if not ticks:
        raise InvalidCron("it never comes")
    gaps = (later - tick for tick, later in pairwise(ticks))
    if min(gaps, default=timedelta(days=1)).total_seconds() < LEAST_SECONDS:
        raise InvalidCron(f"its times must be at least {LEAST_SECONDS // 60} minutes apart, such as */5 * * * *")
    return ticks[0]


def next_tick(cron: str, after: datetime) -> datetime:
    """The first tick after a moment. An expression that was checked always has one within 50 years."""
    return next(CronSim(cron, after), datetime.max.replace(tzinfo=UTC))


SCHEDULES = "schedules"
DELETED = "deleted"
"""The attribute of a deleted schedule, which stays until its events are sent."""
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
        return [each for each in found if each[0].latest(at) is not None]

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
        key = _key(schedule.tenant, schedule.id)
        try:
            await self._store.write(Update(TEMPLATES, key, set=_attributes(schedule), condition=VersionIs(version)))
        except ConditionFailed:
            return False
        return True

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


def _attributes(schedule: Schedule) -> Attributes:
    return {**schedule.attributes(), DUE.partition: index_partition(_key(schedule.tenant, schedule.id))}


def _is_deleted(item: Item) -> bool:
    return bool(item.attributes.get(DELETED, False))


def _key(tenant: str, schedule_id: str) -> Key:
    return Key(SCHEDULES, f"{tenant}#{schedule_id}")
