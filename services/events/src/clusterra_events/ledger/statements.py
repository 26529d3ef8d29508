"""The lines of all workers: computed from facts while a worker lives, and written by day once it has ended.

All that counts is done in a thread, and has a bound. The lines of a worker that cannot be computed are left out, and
one line in their place says that they are unknown. Other workers lose nothing.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, timedelta

import structlog
from clusterra_contracts.identity import MAX_AGE, ClusterRef
from clusterra_runtime.bounded_cache import BoundedCache
from clusterra_runtime.store.condition import VersionIs
from clusterra_runtime.store.item import Item, Value
from clusterra_runtime.store.page import all_items
from clusterra_runtime.store.store import ConditionFailed, Delete, Store, StoreUnavailable, Update
from pydantic import TypeAdapter

from clusterra_events.ledger import keyspace
from clusterra_events.ledger.account import Line, lines_of
from clusterra_events.ledger.charge import microseconds, moment
from clusterra_events.ledger.facts import Life, WorkerFacts
from clusterra_events.ledger.journal import LEFT_OUT, Journal, OpenWorker
from clusterra_events.ledger.keyspace import LEDGER
from clusterra_events.ledger.lives import WorkerLife, lives_of
from clusterra_events.ledger.presence import Presence
from clusterra_events.ledger.sweep import NotComputed

SETTLE_AFTER_SECONDS = 600.0
"""How long after its end the lines of a worker are written. A fact that arrives later makes them written again."""
LINES_PER_ITEM = 500
BYTES_PER_ITEM = 256 * 1024
"""An item has at most 400 KiB. A line has about 300 bytes, but the name of a job may be long."""
MAX_KNOWN_DAYS = 62
"""How many days of a cluster are remembered."""
SETTLE_SECONDS = 30.0
"""How long the workers of one cluster may take at once. The next ones are settled in the next round."""
REPORT_SECONDS = 20.0
"""How long the accounts of all living workers may take for one request. Those of further ones are unknown."""
ASIDE_SECONDS = 600.0
"""For how long a worker whose account cannot be computed is left alone at least. A busy one has a fact each second."""
MAX_SET_ASIDE = 10_000
_PAGE = 100

log = structlog.get_logger(__name__)

DAYS: TypeAdapter[tuple[date, ...]] = TypeAdapter(tuple[date, ...])
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
        presence: Presence | None = None,
    ) -> None:
        self._store = store
        self._journal = journal
        self._retention_seconds = retention_seconds
        self._kept = timedelta(seconds=min(retention_seconds, MAX_AGE.total_seconds()))
        self._clock = clock
        self._settle_after_seconds = settle_after_seconds
        self._presence = presence or Presence()
        self._days: dict[ClusterRef, tuple[int, BoundedCache[date, tuple[Line, ...]]]] = {}
        """The written lines by day, and how often lines had been written when they were read."""
        self._set_aside = BoundedCache[tuple[ClusterRef, str], tuple[int, float]](MAX_SET_ASIDE)
        """The workers whose costs cannot be computed: of which version, and until when on the monotonic clock."""
        self._settled_last: dict[ClusterRef, str] = {}

    async def open_facts(self, ref: ClusterRef) -> dict[str, tuple[WorkerFacts, ...]]:
        """The facts of the workers whose lines are not written yet, by name."""
        return {worker.name: await self._journal.facts(ref, worker) for worker in await self._journal.open_workers(ref)}

    async def lines(
        self, ref: ClusterRef, first: date, last: date, as_of: datetime, *, workers: frozenset[str] | None = None
    ) -> list[Line]:
        """All lines of the days from `first` to `last`, both inclusive. Those of living workers are until `as_of`.

        With `workers` only those of workers with these names.
        """
        as_of_day = utc_day(as_of)
        # No lines are kept for longer, and there are none of days to come.
        first = max(first, as_of_day - self._kept - timedelta(days=1))
        last = min(last, as_of_day + timedelta(days=1))
        # The open workers come first: one that is settled meanwhile is then in both, and counts once.
        living = dict[OpenWorker, tuple[WorkerFacts, ...]]()
        gaps = list[Line]()
        for worker in await self._journal.open_workers(ref):
            if workers is None or worker.name in workers:
                aside = self._is_aside(ref, worker)
                living[worker] = () if aside else await self._journal.facts(ref, worker)
                if aside or self._journal.is_cut(ref, worker):
                    gaps.append(_gap(worker.name, as_of_day))
        written = await self._written(ref, first, last)
        lines, failed = await asyncio.to_thread(_lines, written, living, (first, last), as_of, workers)
        for worker, reason in failed.items():
            self._put_aside(ref, worker, reason)
        return [*lines, *gaps]

    async def settle(self, ref: ClusterRef) -> None:
        """Write the lines of the workers that have ended, for SETTLE_SECONDS at most."""
        stop = time.monotonic() + SETTLE_SECONDS
        last = self._settled_last.get(ref, "")
        for worker in sorted(await self._journal.open_workers(ref), key=lambda each: (each.name <= last, each.name)):
            self._settled_last[ref] = worker.name
            if not self._is_aside(ref, worker):
                await self._settle(ref, worker)
            if time.monotonic() > stop:
                log.warning("ledger_settles_later", tenant=ref.tenant, cluster=ref.cluster, after=worker.name)
                return

    async def _settle(self, ref: ClusterRef, worker: OpenWorker) -> None:
        until = round((self._clock() - self._settle_after_seconds) * 1_000_000)
        try:
            facts = await self._journal.facts(ref, worker)
            lines, living = await asyncio.to_thread(_final_lines, worker.name, facts, until)
            if lines is not None:
                cut = [_gap(worker.name, lines[-1].day)] if lines and self._journal.is_cut(ref, worker) else []
                await self._write(ref, worker, [*lines, *cut])
            if living is not None:
                await self._end_missing(ref, worker, living)
        except StoreUnavailable:
            raise
        except NotComputed as error:
            self._put_aside(ref, worker, str(error))
        except Exception:
            log.exception("ledger_not_computed", tenant=ref.tenant, cluster=ref.cluster, worker=worker.name)
            self._put_aside(ref, worker, "an error of the ledger")

    async def _end_missing(self, ref: ClusterRef, worker: OpenWorker, living: WorkerLife) -> None:
        started_at = moment(living.start)
        ended_at = self._presence.gone_since(ref, worker.name, started_at)
        if ended_at is not None:
            log.warning("ledger_ends_worker", tenant=ref.tenant, cluster=ref.cluster, worker=worker.name, at=ended_at)
            life = Life(started_at=started_at, shape=living.shape, ended_at=ended_at, missing=True)
            await self._journal.take_missing(ref, worker.name, life)

    def _is_aside(self, ref: ClusterRef, worker: OpenWorker) -> bool:
        version, until = self._set_aside.get((ref, worker.name)) or (0, 0.0)
        return version == worker.version or time.monotonic() < until

    def _put_aside(self, ref: ClusterRef, worker: OpenWorker, reason: str) -> None:
        """Leave a worker alone until it has a new fact."""
        self._set_aside.put((ref, worker.name), (worker.version, time.monotonic() + ASIDE_SECONDS))
        LEFT_OUT.labels("worker").inc()
        log.error("ledger_set_aside", tenant=ref.tenant, cluster=ref.cluster, worker=worker.name, reason=reason)

    async def _write(self, ref: ClusterRef, worker: OpenWorker, lines: Iterable[Line]) -> None:
        by_day: dict[date, list[Line]] = {}
        for line in lines:
            by_day.setdefault(line.day, []).append(line)
        expires_at = int(self._clock() + self._retention_seconds)
        for day in await self._days_of(ref, worker.name, by_day.keys(), expires_at):
            chunks = await asyncio.to_thread(_chunks_of, by_day.get(day, ()))
            for number, chunk in enumerate(chunks):
                content: dict[str, Value] = {"lines": chunk, "chunks": len(chunks)}
                key = keyspace.lines_key(ref, day, worker.name, number)
                await self._store.write(Update(LEDGER, key, set=content, expires_at=expires_at))
        await self._store.write(
            Update(LEDGER, keyspace.settled_key(ref), set={"at": int(self._clock())}, expires_at=expires_at)
        )
        try:
            await self._store.delete(Delete(LEDGER, keyspace.open_key(ref, worker.name), VersionIs(worker.version)))
        except ConditionFailed:
            return  # there is a new fact: the lines are written again

    async def _days_of(self, ref: ClusterRef, worker: str, days: AbstractSet[date], expires_at: int) -> list[date]:
        """The days of new lines, and those of all that were written before: a worker may have ended earlier than told.

        They are kept first, so that whoever goes on after a crash knows what to write again.
        """
        key = keyspace.days_key(ref, worker)
        found = await self._store.get(LEDGER, key)
        before = frozenset() if found is None else frozenset(DAYS.validate_json(str(found.attributes["days"])))
        all_days = tuple(sorted(before | days))
        kept: dict[str, Value] = {"days": DAYS.dump_json(all_days).decode()}
        await self._store.write(Update(LEDGER, key, set=kept, expires_at=expires_at))
        return list(all_days)

    async def _written(self, ref: ClusterRef, first: date, last: date) -> list[Line]:
        counted = await self._store.get(LEDGER, keyspace.settled_key(ref))
        count = 0 if counted is None else counted.version
        known = self._days.get(ref)
        if known is None or known[0] != count:
            known = self._days[ref] = count, BoundedCache(MAX_KNOWN_DAYS)
        found: list[Line] = []
        for offset in range((last - first).days + 1):
            day = first + timedelta(days=offset)
            lines = known[1].get(day)
            if lines is None:
                lines = tuple([line async for line in self._of_day(ref, day)])
                known[1].put(day, lines)
            found.extend(lines)
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


def _final_lines(
    worker: str, facts: tuple[WorkerFacts, ...], until: int
) -> tuple[list[Line] | None, WorkerLife | None]:
    """The lines of a worker that had ended by a moment, None if it had not; and its life, if that has no end."""
    lives = lives_of(facts)
    if not lives or lives[-1].end is None:
        return None, lives[-1] if lives else None
    over_at = lives[-1].end
    return lines_of(worker, facts, over_at) if over_at <= until else None, None


def _lines(
    written: list[Line],
    living: Mapping[OpenWorker, tuple[WorkerFacts, ...]],
    days: tuple[date, date],
    as_of: datetime,
    workers: frozenset[str] | None,
) -> tuple[list[Line], dict[OpenWorker, str]]:
    """The written lines and those of living workers, and which of these cannot be computed, and why."""
    names = {worker.name for worker in living}
    found = [line for line in written if line.worker not in names and (workers is None or line.worker in workers)]
    failed, stop = dict[OpenWorker, str](), time.monotonic() + REPORT_SECONDS
    for worker, told in living.items():
        if time.monotonic() > stop:
            found.append(_gap(worker.name, utc_day(as_of)))
            continue
        try:
            found.extend(lines_of(worker.name, told, microseconds(as_of), days))
        except NotComputed as error:
            failed[worker] = str(error)
            found.append(_gap(worker.name, utc_day(as_of)))
    return found, failed


def _gap(worker: str, day: date) -> Line:
    """What is told of a worker whose lines cannot be computed, or lack something."""
    return Line(day=day, worker=worker, shape="", purpose="unattributed", micro_usd=None, microseconds=0, unknown=True)


def _chunks_of(lines: Iterable[Line]) -> list[str]:
    """The lines of a day as JSON, in parts that fit into an item."""
    chunks, chunk, size = list[str](), list[str](), 0
    for line in lines:
        text = line.model_dump_json()
        length = len(text.encode()) + 1
        if chunk and (len(chunk) == LINES_PER_ITEM or size + length > BYTES_PER_ITEM):
            chunks.append(f"[{','.join(chunk)}]")
            chunk, size = [], 0
        chunk.append(text)
        size += length
    return [*chunks, f"[{','.join(chunk)}]"]


def _chunks(item: Item) -> int:
    count = item.attributes["chunks"]
    assert isinstance(count, int)  # noqa: S101 - `_write` wrote it
    return count


def utc_day(at: datetime) -> date:
    """The day of a moment in UTC."""
    return at.astimezone(UTC).date()
