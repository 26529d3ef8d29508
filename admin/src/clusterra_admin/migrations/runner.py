"""Plans and applies migrations. Every write has a condition, so services may run meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import batched
from typing import Literal

from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.optimistic_write import write_optimistically
from clusterra_runtime.store.record_level import LEVEL, WATCH_SECONDS, Level, read_level
from clusterra_runtime.store.store import ConditionFailed, Put, Store, Table, Update

from clusterra_admin.migrations.migration import Migration, UnreadableRecord

BATCH = 50
"""Records that are looked at before progress is told and the rate is kept."""
CONCURRENCY = 8
ATTEMPTS = 10
"""How often one record is tried that a service changes at the same moment."""
STOP_SECONDS = WATCH_SECONDS + 5.0
"""How long a migration waits for running releases that cannot read its form: they look at the level and stop."""
MAX_NAMED = 100
"""The most unreadable records that a report names."""

type Outcome = Literal["changed", "unchanged", "unreadable", "contended"]


class Contended(Exception):
    """Services changed some records again and again. Nothing is lost: apply again."""


@dataclass
class Report:
    """What a migration found, or did."""

    migration: Migration
    state: Literal["done before", "pending", "done now"]
    looked_at: int = 0
    changed: int = 0
    """Records in the old form: changed, or with `plan` to change."""
    unreadable: list[str] = field(default_factory=list)
    """`<pk> <sk>: <why>` of records in neither form. They stay as they are."""


async def plan(store: Store, migrations: Sequence[Migration]) -> list[Report]:
    """Count what `apply` would change. Writes nothing. Raises StoreError."""
    return [await _run(store, migration, None, _no_progress) for migration in migrations]


async def apply(
    store: Store, migrations: Sequence[Migration], *, per_second: float, progress: Callable[[Report], None]
) -> list[Report]:
    """Apply what is pending, and record it. A repetition goes on where an interrupted one ended.

    At most about `per_second` records are looked at in a second. Raises StoreError, Contended.
    """
    return [await _run(store, migration, per_second, progress) for migration in migrations]


def _no_progress(_report: Report) -> None:
    """A plan is quick."""


async def _run(
    store: Store, migration: Migration, per_second: float | None, progress: Callable[[Report], None]
) -> Report:
    before = await read_level(store, migration.table)
    if before.level >= migration.number:
        return Report(migration, "done before")
    report = Report(migration, "pending")
    writes = per_second is not None
    if writes:
        # First, so that a release that could not read the new form stops before there is any.
        await _raise_level(store, migration.table, before.level, migration.readable_from)
        if migration.readable_from:
            await asyncio.sleep(STOP_SECONDS)
    contended = 0
    async for keys in _batches(migration.keys(store)):
        started = asyncio.get_running_loop().time()
        contended += await _batch(store, migration, keys, report, writes=writes)
        progress(report)
        if per_second is not None:
            took = asyncio.get_running_loop().time() - started
            await asyncio.sleep(max(0.0, len(keys) / per_second - took))
    if contended:
        raise Contended(f"migration {migration.name}: {contended} records were changed by services at the same moment")
    if writes:
        await _raise_level(store, migration.table, migration.number, migration.readable_from)
        report.state = "done now"
    return report


async def _batches(keys: AsyncIterator[Key]) -> AsyncIterator[list[Key]]:
    batch: list[Key] = []
    async for key in keys:
        batch.append(key)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


async def _batch(store: Store, migration: Migration, keys: Sequence[Key], report: Report, *, writes: bool) -> int:
    """Look at some records. Returns how many are left because services keep changing them."""
    contended = 0
    for together in batched(keys, CONCURRENCY):
        outcomes = await asyncio.gather(*(_record(store, migration, key, report, writes=writes) for key in together))
        report.looked_at += len(together)
        report.changed += outcomes.count("changed")
        contended += outcomes.count("contended")
    return contended


async def _record(store: Store, migration: Migration, key: Key, report: Report, *, writes: bool) -> Outcome:
    async def attempt() -> Outcome:
        item = await store.get(migration.table, key)
        if item is None:
            return "unchanged"
        try:
            attributes = migration.change(item)
        except UnreadableRecord as error:
            if len(report.unreadable) < MAX_NAMED:
                report.unreadable.append(f"{key.pk} {key.sk}: {error}")
            return "unreadable"
        if attributes is None:
            return "unchanged"
        if not writes:
            return "changed"
        await store.write(Update(migration.table, key, set=attributes, condition=VersionIs(item.version)))
        return "changed"

    try:
        return await write_optimistically(attempt, attempts=ATTEMPTS)
    except ConditionFailed:
        return "contended"


async def _raise_level(store: Store, table: Table, level: int, readable_from: int) -> None:
    """Record a level, unless a higher one was recorded meanwhile."""

    async def attempt() -> None:
        item = await store.get(table, LEVEL)
        known = Level() if item is None else Level.model_validate(dict(item.attributes))
        new = Level(level=max(level, known.level), readable_from=max(readable_from, known.readable_from))
        if item is not None and new == known:
            return
        content = {**new.model_dump(), "changed_at": datetime.now(UTC).isoformat(timespec="seconds")}
        if item is None:
            await store.write(Put(table, LEVEL, content, Absent()))
        else:
            await store.write(Update(table, LEVEL, set=content, condition=VersionIs(item.version)))

    contended = Contended(f"the level of {table.name} was changed by others again and again")
    await write_optimistically(attempt, contended=contended, attempts=ATTEMPTS)
