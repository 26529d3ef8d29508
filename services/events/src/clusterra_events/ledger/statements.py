"""The lines of all workers: computed from facts while a worker lives, and written by day once it has ended."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta

from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.store.condition import VersionIs
from clusterra_runtime.store.item import Item, Value
from clusterra_runtime.store.page import all_items
from clusterra_runtime.store.store import ConditionFailed, Delete, Store, Update
from pydantic import TypeAdapter

from clusterra_events.ledger import keyspace
from clusterra_events.ledger.account import Line, lines_of
from clusterra_events.ledger.charge import microseconds
from clusterra_events.ledger.facts import WorkerFacts
from clusterra_events.ledger.journal import Journal, OpenWorker
from clusterra_events.ledger.keyspace import LEDGER
from clusterra_events.ledger.lives import lives_of

SETTLE_AFTER_SECONDS = 600.0
"""How long after its end the lines of a worker are written. A fact that arrives later makes them written again."""
LINES_PER_ITEM = 500
"""A line has about 300 bytes, and an item at most 400 KiB."""
MAX_KNOWN_DAYS = 62
"""How many days of a cluster are remembered."""
_PAGE = 100
LINES: TypeAdapter[tuple[Line, ...]] = TypeAdapter(tuple[Line, ...])


class Statements:
    """Lines of all clusters. All methods raise StoreUnavailable."""

    def __init__(
        self,
        store: Store,
        journal: Journal,
        *,
        retention_seconds: float,
        clock: Callable[[], float] = time.time,
        settle_after_seconds: float = SETTLE_AFTER_SECONDS,
    ) -> None:
        self._store = store
        self._journal = journal
        self._retention_seconds = retention_seconds
        self._clock = clock
        self._settle_after_seconds = settle_after_seconds
        self._days: dict[ClusterRef, tuple[int, dict[date, tuple[Line, ...]]]] = {}
        """The written lines by day, and how often lines had been written when they were read."""

    async def open_facts(
        self, ref: ClusterRef, workers: frozenset[str] | None = None
    ) -> dict[str, tuple[WorkerFacts, ...]]:
        """The facts of the workers whose lines are not written yet, by name; with `workers` only of these names."""
        return {
            worker.name: await self._journal.facts(ref, worker)
            for worker in await self._journal.open_workers(ref)
            if workers is None or worker.name in workers
        }

    async def lines(
        self, ref: ClusterRef, first: date, last: date, as_of: datetime, *, workers: frozenset[str] | None = None
    ) -> list[Line]:
        """All lines of the days from `first` to `last`, both inclusive. Those of living workers are until `as_of`.

        With `workers` only those of workers with these names.
        """
        # The open workers come first: one that is settled meanwhile is then in both, and counts once.
        facts = await self.open_facts(ref, workers)
        written = await self._written(ref, first, last)
        return await asyncio.to_thread(_lines, written, facts, (first, last), microseconds(as_of), workers)

    async def settle(self, ref: ClusterRef) -> None:
        """Write the lines of the workers that have ended."""
        now = self._clock()
        for worker in await self._journal.open_workers(ref):
            facts = await self._journal.facts(ref, worker)
            lives = lives_of(facts)
            over_at = None if not lives else lives[-1].end
            if over_at is not None and over_at <= (now - self._settle_after_seconds) * 1_000_000:
                await self._write(ref, worker, lines_of(worker.name, facts, over_at))

    async def _write(self, ref: ClusterRef, worker: OpenWorker, lines: Iterable[Line]) -> None:
        by_day: dict[date, list[Line]] = {}
        for line in lines:
            by_day.setdefault(line.day, []).append(line)
        expires_at = int(self._clock() + self._retention_seconds)
        for day, of_day in by_day.items():
            chunks = [of_day[at : at + LINES_PER_ITEM] for at in range(0, len(of_day), LINES_PER_ITEM)]
            for number, chunk in enumerate(chunks):
                content: dict[str, Value] = {"lines": LINES.dump_json(tuple(chunk)).decode(), "chunks": len(chunks)}
                key = keyspace.lines_key(ref, day, worker.name, number)
                await self._store.write(Update(LEDGER, key, set=content, expires_at=expires_at))
        await self._store.write(
            Update(LEDGER, keyspace.settled_key(ref), set={"at": int(self._clock())}, expires_at=expires_at)
        )
        try:
            await self._store.delete(Delete(LEDGER, keyspace.open_key(ref, worker.name), VersionIs(worker.version)))
        except ConditionFailed:
            return  # there is a new fact: the lines are written again

    async def _written(self, ref: ClusterRef, first: date, last: date) -> list[Line]:
        counted = await self._store.get(LEDGER, keyspace.settled_key(ref))
        count = 0 if counted is None else counted.version
        known = self._days.get(ref)
        if known is None or known[0] != count:
            known = self._days[ref] = count, {}
        found: list[Line] = []
        if len(known[1]) > MAX_KNOWN_DAYS:
            known[1].clear()
        for offset in range((last - first).days + 1):
            day = first + timedelta(days=offset)
            if day not in known[1]:
                known[1][day] = tuple([line async for line in self._of_day(ref, day)])
            found.extend(known[1][day])
        return found

    async def _of_day(self, ref: ClusterRef, day: date) -> AsyncIterator[Line]:
        chunks: dict[str, int] = {}
        partition = keyspace.day_partition(ref, day)
        async for item in all_items(lambda after: self._store.query(LEDGER, partition, limit=_PAGE, cursor=after)):
            worker, _, number = item.key.sk.rpartition("#")
            if int(number) == 0:
                chunks[worker] = _chunks(item)
            if int(number) < chunks.get(worker, 0):
                for line in LINES.validate_json(str(item.attributes["lines"])):
                    yield line


def _lines(
    written: list[Line],
    facts: Mapping[str, tuple[WorkerFacts, ...]],
    days: tuple[date, date],
    as_of: int,
    workers: frozenset[str] | None,
) -> list[Line]:
    found = [line for line in written if line.worker not in facts and (workers is None or line.worker in workers)]
    for worker, known in facts.items():
        found.extend(line for line in lines_of(worker, known, as_of) if days[0] <= line.day <= days[1])
    return found


def _chunks(item: Item) -> int:
    count = item.attributes["chunks"]
    assert isinstance(count, int)  # noqa: S101 - `_write` wrote it
    return count


def utc_day(at: datetime) -> date:
    """The day of a moment in UTC."""
    return at.astimezone(UTC).date()
