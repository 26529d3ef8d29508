"""What an agent, a clock or a long list may tell the ledger costs nobody else anything, and no more than its bound."""

import asyncio
import base64
import time
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.events import Event, WorkerFact
from clusterra_contracts.rpc.costs import ReadCosts
from clusterra_events.ledger import journal, keyspace, statements, sweep
from clusterra_events.ledger.account import lines_of
from clusterra_events.ledger.charge import microseconds
from clusterra_events.ledger.facts import Life, Superseded, facts_of
from clusterra_events.ledger.journal import LEFT_OUT
from clusterra_events.ledger.keyspace import LEDGER
from clusterra_events.ledger.lives import lives_of
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.page import Page
from clusterra_runtime.store.store import Put, Table, Update

from .ledger_histories import REF, START, ModelWorker, job_events, told, worker_events
from .test_ledger_account import facts_by_worker
from .test_ledger_store import FIRST, HOUR, LAST, NOON, opened, viewer

BOUND_SECONDS = 20.0
"""A computation without a bound takes hours."""


def started(worker: str, at: datetime) -> Event:
    fact = WorkerFact(kind="worker.started", worker=worker, shape="xs", started_at=at)
    return told(fact, "1", 0).model_copy(update={"time": at})


def ended_worker() -> list[Event]:
    return worker_events(ModelWorker("xs-1", 0, HOUR, [(0, 1_000_000)], cpus=4))


@pytest.mark.parametrize("at", [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)])
async def test_a_time_that_cannot_be_is_refused_by_the_ledger(at: datetime) -> None:
    async with MemoryStore() as store:
        book = await opened(store)

        with pytest.raises(InvalidMessage, match="too far from now"):
            await book.take([started("xs-9", at)])

        assert await book.journal.open_workers(REF) == ()


async def test_a_stored_fact_of_year_one_is_set_aside_and_others_are_settled() -> None:
    first = datetime(1, 1, 1, tzinfo=UTC)
    async with MemoryStore() as store:
        book = await opened(store)
        await book.take(ended_worker())
        # As a release before stored it.
        for fact in (Life(started_at=first, shape="xs"), Life(started_at=first, shape="xs", ended_at=START)):
            key = keyspace.fact_key(REF, "xs-0", str(fact.ended_at))
            await store.write(Put(LEDGER, key, {"fact": fact.model_dump_json()}, Absent()))
        await store.write(Update(LEDGER, keyspace.open_key(REF, "xs-0"), set={"fact": "2"}))

        async with asyncio.timeout(BOUND_SECONDS):
            await book.statements.settle(REF)
            lines = await book.lines()

        assert [each.name for each in await book.journal.open_workers(REF)] == ["xs-0"]
        assert sum(line.micro_usd or 0 for line in lines) == 1_000_000


async def test_a_worker_that_cannot_be_computed_is_set_aside_once_and_said_to_be_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endless = [
        *worker_events(ModelWorker("xs-0", 0, 9 * HOUR, [(0, 1_000_000)], cpus=4)),
        *(each for job in range(1, 30) for each in job_events(job, 0, ("xs-0",), (job * 10**6, None), (1, 1))),
    ]
    monkeypatch.setattr(sweep, "MAX_LINES", 20)
    monkeypatch.setattr(statements, "ASIDE_SECONDS", 0.0)
    async with MemoryStore() as store:
        book = await opened(store)
        await book.take([*endless, *ended_worker()])
        before = LEFT_OUT.labels("worker")._value.get()

        for _ in range(3):
            await book.statements.settle(REF)
        lines = await book.lines()

        assert LEFT_OUT.labels("worker")._value.get() - before == 1
        request = ReadCosts(viewer=viewer(20001), first=FIRST, last=LAST)
        page = await book.reports.costs(Subject("ledger", REF, "costs"), request)

        assert page.unknown  # for a member, too
        assert [(line.worker, line.unknown) for line in lines if line.unknown] == [("xs-0", True)]
        assert sum(line.micro_usd or 0 for line in lines if line.worker == "xs-1") == 1_000_000
        monkeypatch.setattr(sweep, "MAX_LINES", 200)
        await book.take([started("xs-0", START)])
        await book.statements.settle(REF)
        assert await book.journal.open_workers(REF) == ()


class CountingStore(MemoryStore):
    """Counts the writes."""

    writes = 0

    async def write(self, write: Put | Update) -> Item:
        self.writes += 1
        return await super().write(write)


@pytest.mark.parametrize("backwards", [False, True])
async def test_a_job_that_is_queued_again_120_times_makes_some_writes_for_each(backwards: bool) -> None:
    """A fact for each pair of runs, with each event, was 1.18 million writes."""
    minute, requeues = 60_000_000, 120
    events = [
        event
        for restarts in range(requeues)
        for event in job_events(1, restarts, ("xs-1",), (restarts * minute, None), (4, 1))
    ]
    async with CountingStore() as store:
        book = await opened(store)
        await book.take(worker_events(ModelWorker("xs-1", 0, 2 * HOUR, [(0, 1_000_000)], cpus=4)))
        store.writes = 0

        await book.take(reversed(events) if backwards else events)

        assert store.writes <= 12 * requeues
        runs = [line for line in await book.lines() if line.purpose == "job"]
        assert [line.microseconds for line in runs] == [minute] * (requeues - 1) + [minute]


async def test_facts_of_the_release_before_count_as_they_did() -> None:
    worker = ModelWorker("xs-1", 0, 9 * HOUR, [(0, 1_000_000)], cpus=4)
    events = [
        *worker_events(worker),
        *job_events(1, 0, ("xs-1",), (HOUR, None), (1, 1)),
        *job_events(1, 1, ("xs-1",), (2 * HOUR, 3 * HOUR), (1, 1)),
    ]
    async with MemoryStore() as store, MemoryStore() as other:
        book, before = await opened(store), await opened(other)
        await book.take(events)
        (first, _) = await book.journal.runs(REF, "1")
        queued = Superseded(job_id="1", submitted_at=first.submitted_at, restarts=0, at=START + timedelta(hours=2))

        for number, (_, fact) in enumerate([each for event in events for each in facts_of(event)] + [("", queued)]):
            key = keyspace.fact_key(REF, "xs-1", f"acme.main:{number}")
            await other.write(Put(LEDGER, key, {"fact": fact.model_dump_json()}, Absent()))
        await other.write(Update(LEDGER, keyspace.open_key(REF, "xs-1"), set={"fact": "9"}))

        assert await before.lines() == await book.lines()


async def test_the_bill_is_whole_where_a_worker_has_more_facts_than_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_FACTS", 10)
    events = worker_events(ModelWorker("xs-1", 0, 9 * HOUR, [(0, 1_000_000)], cpus=4))
    events += [
        each
        for job in range(1, 20)
        for each in job_events(job, 0, ("xs-1",), (job * HOUR // 9, job * HOUR // 9 + HOUR // 10), (1, 1))
    ]
    async with MemoryStore() as store:
        book = await opened(store)
        await book.take(events)
        before = LEFT_OUT.labels("rest")._value.get()

        for _ in range(2):
            lines = await book.lines()

            assert sum(line.micro_usd or 0 for line in lines) == 9_000_000
            assert any(line.unknown for line in lines)
            await book.statements.settle(REF)

        assert LEFT_OUT.labels("rest")._value.get() > before
        assert await book.journal.open_workers(REF) == ()


async def test_the_event_loop_goes_on_while_ten_thousand_runs_are_settled() -> None:
    """At 8,000 runs the loop stood still for ten seconds."""
    second = 1_000_000
    events = worker_events(ModelWorker("xs-1", 0, 9 * HOUR, [(0, 1_000_000)], cpus=4))
    for job in range(1, 10_001):
        begin = 10 * second + job * 2 * second
        events += job_events(job, 0, ("xs-1",), (begin, begin + 3 * second), (2, 100))
    facts = facts_by_worker(events)["xs-1"]
    lives = time.monotonic()

    lines = lines_of("xs-1", facts, microseconds(START) + 9 * HOUR)

    assert time.monotonic() - lives < BOUND_SECONDS / 2
    assert sum(line.micro_usd or 0 for line in lines) == 9_000_000
    assert len({line.job_id for line in lines}) == 10_001


def test_twice_the_runs_take_some_twice_the_steps() -> None:
    steps = []
    for count in (1_000, 2_000):
        worker = ModelWorker("xs-1", 0, 30 * HOUR, [(0, 1_000_000)], cpus=4)
        # All lack their end, so that all run at once in the end.
        events = [
            *worker_events(worker),
            *(each for job in range(1, count) for each in job_events(job, 0, ("xs-1",), (job * 10**6, None), (1, 1))),
        ]
        bound = sweep.Bound(BOUND_SECONDS)
        (life,) = lives_of(facts_by_worker(events)["xs-1"])

        sweep.tallies_of(life, 0, microseconds(START) + 30 * HOUR, bound)

        steps.append(bound._steps)
    assert steps[1] < 2.1 * steps[0]


async def test_names_of_jobs_may_be_so_long_that_the_lines_of_a_day_are_several_items() -> None:
    events = ended_worker()
    for job in range(1, 400):
        for event in job_events(job, 0, ("xs-1",), (job * 10**6, (job + 1) * 10**6), (1, 1)):
            events.append(event.model_copy(update={"data": event.data.model_copy(update={"name": "é" * 1_000})}))
    async with MemoryStore() as store:
        book = await opened(store)
        await book.take(events)
        before = await book.lines()

        await book.statements.settle(REF)

        assert await book.journal.open_workers(REF) == ()
        assert await book.lines() == before


@pytest.mark.parametrize("year", ["0001", "9999"])
async def test_a_made_up_cursor_computes_nothing(year: str) -> None:
    cursor = base64.urlsafe_b64encode(f"{year}-01-01T00:00:00+00:00\nidle".encode()).decode()
    request = ReadCosts(viewer=viewer(1000, admin=True), first=FIRST, last=LAST, cursor=cursor)
    async with MemoryStore() as store:
        book = await opened(store)
        await book.take(worker_events(ModelWorker("xs-1", 0, None, [(0, 1_000_000)], cpus=4)))

        with pytest.raises(RpcFailed, match="cursor"):
            await book.reports.costs(Subject("ledger", REF, "costs"), request)


async def test_lines_of_all_days_that_can_be_asked_for_are_those_that_are_kept() -> None:
    async with MemoryStore() as store:
        book = await opened(store)
        await book.take(ended_worker())

        async with asyncio.timeout(BOUND_SECONDS):
            lines = await book.statements.lines(REF, date(1, 1, 1), date(9999, 12, 31), NOON + timedelta(days=1))

        assert sum(line.micro_usd or 0 for line in lines) == 1_000_000


async def test_a_long_report_leaves_the_newest_days_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[str]()
    query = MemoryStore.query

    async def counted(store: MemoryStore, table: Table, pk: str, **bounds: Any) -> Page:
        read.append(pk)
        return await query(store, table, pk, **bounds)

    monkeypatch.setattr(MemoryStore, "query", counted)
    last, days = NOON.date(), statements.MAX_KNOWN_DAYS
    async with MemoryStore() as store:
        book = await opened(store)
        await book.statements.lines(REF, last - timedelta(days=3 * days), last, NOON)
        await book.statements.lines(REF, last - timedelta(days=3 * days), last - timedelta(days=3 * days - 1), NOON)
        read.clear()

        await book.statements.lines(REF, last - timedelta(days=days // 2), last, NOON)

        assert not set(read) & {
            keyspace.day_partition(REF, last - timedelta(days=each)) for each in range(days // 2 + 1)
        }
