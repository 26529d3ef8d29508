"""A clock that is wrong makes no job free, and a worker whose end was never told is not billed for ever."""

from collections.abc import Iterable
from datetime import timedelta

import pytest
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.events import Event, NodeFact, PriceFact, WorkerFact
from clusterra_contracts.heartbeat import Heartbeat, Worker
from clusterra_events.ledger.account import Line
from clusterra_events.ledger.presence import ABSENT, Presence
from clusterra_events.ledger.statements import Statements
from clusterra_runtime.store.memory_store import MemoryStore
from hypothesis import given
from hypothesis import strategies as st

from .ledger_histories import REF, START, ModelWorker, at, job_events, told, worker_events
from .test_ledger_account import ledger
from .test_ledger_store import DAY, Book, opened

HOUR, MINUTE = 3_600_000_000, 60_000_000


def later(event: Event, by: int) -> Event:
    """The event as somebody tells it whose clock is ahead."""
    delta = timedelta(microseconds=by)
    times = {
        name: value + delta
        for name, value in event.data
        if name in ("started_at", "ended_at", "submitted_at") and value is not None
    }
    return event.model_copy(update={"time": event.time + delta, "data": event.data.model_copy(update=times)})


def ahead(events: Iterable[Event], kinds: tuple[type, ...], by: int) -> list[Event]:
    return [later(event, by) if isinstance(event.data, kinds) else event for event in events]


def of_jobs(lines: Iterable[Line]) -> int:
    return sum(line.micro_usd or 0 for line in lines if line.purpose == "job")


# The worker lives for an hour, and the job has half of it for 20 minutes.
EVENTS = [
    *worker_events(ModelWorker("xs-1", 2 * HOUR, 3 * HOUR, [(2 * HOUR, 1_200_000)], cpus=4)),
    *job_events(1, 0, ("xs-1",), (2 * HOUR + 10 * MINUTE, 2 * HOUR + 30 * MINUTE), (2, 1)),
]


@given(st.integers(-23 * HOUR, 23 * HOUR))
def test_the_clock_of_an_edge_makes_no_job_free(by: int) -> None:
    events = ahead(EVENTS, (WorkerFact, PriceFact), by)

    lines = ledger(events, 30 * HOUR)

    assert sum(line.micro_usd or 0 for line in lines) == 1_200_000
    if by >= 0 or by < -61 * MINUTE:  # the run seems to be before the worker, or more than ten minutes after it
        assert of_jobs(lines) == pytest.approx(200_000, abs=1)


@given(st.integers(0, 23 * HOUR))
def test_a_slurmctld_that_is_behind_makes_no_job_free(by: int) -> None:
    events = [later(event, -by) if event.data.kind.startswith("job.") else event for event in EVENTS]

    assert of_jobs(ledger(events, 30 * HOUR)) == pytest.approx(200_000, abs=1)


def test_a_run_on_a_node_that_has_just_died_costs_nothing() -> None:
    events = [
        *EVENTS[:-2],
        *job_events(1, 0, ("xs-1",), (3 * HOUR + MINUTE, 3 * HOUR + 5 * MINUTE), (2, 1)),
    ]

    assert of_jobs(ledger(events, 30 * HOUR)) == 0


def test_a_run_without_an_end_does_not_go_on_on_the_next_worker_of_its_name() -> None:
    events = [
        *worker_events(ModelWorker("xs-1", 0, HOUR, [(0, 1_000_000)], cpus=4)),
        *worker_events(ModelWorker("xs-1", 2 * HOUR, 3 * HOUR, [(2 * HOUR, 1_000_000)], cpus=4)),
        *job_events(1, 0, ("xs-1",), (0, None), (4, 1)),
    ]

    assert of_jobs(ledger(events, 30 * HOUR)) == 1_000_000


class Edge:
    """An edge that sends a heartbeat each minute, and the ledger that hears it."""

    def __init__(self, store: MemoryStore) -> None:
        self.monotonic = 0.0
        self.presence = Presence(lambda: self.monotonic)
        self.book = Book(store)
        self.book.statements = Statements(
            store, self.book.journal, retention_seconds=9000 * DAY, clock=lambda: self.now, presence=self.presence
        )
        self.minutes = 0

    @property
    def now(self) -> float:
        return at(self.minutes * MINUTE).timestamp()

    def beat(self, minutes: int, *workers: str, unreadable: bool = False) -> None:
        listed = tuple(Worker(name=name, shape="xs", phase="running", started_at=at(0)) for name in workers)
        for _ in range(minutes):
            self.minutes += 1
            self.monotonic += 60
            heartbeat = Heartbeat(
                generation=self.minutes,
                sent_at=at(self.minutes * MINUTE),
                agent_version="1",
                substrate="process",
                workers=None if unreadable else listed,
            )
            self.presence.on_heartbeat(Subject("heartbeat", REF, ""), heartbeat)

    async def bill(self) -> int:
        await self.book.statements.settle(REF)
        await self.book.statements.settle(REF)
        lines = await self.book.statements.lines(REF, START.date(), (START + timedelta(days=9)).date(), at(99 * HOUR))
        return sum(line.micro_usd or 0 for line in lines)


async def billed_edge(store: MemoryStore) -> Edge:
    await opened(store)
    edge = Edge(store)
    await edge.book.take(worker_events(ModelWorker("xs-1", 0, None, [(0, 1_000_000)], cpus=4)))
    return edge


async def test_a_worker_without_an_end_is_billed_until_heartbeats_lack_it() -> None:
    async with MemoryStore() as store:
        edge = await billed_edge(store)
        edge.beat(60, "xs-1", "xs-2")
        assert await edge.bill() == 99_000_000

        edge.beat(round(ABSENT / timedelta(minutes=1)), "xs-2")

        assert await edge.bill() == 1_000_000
        edge.beat(20, "xs-2")
        assert await edge.bill() == 1_000_000
        assert await edge.book.journal.open_workers(REF) == ()


async def test_a_worker_that_no_heartbeat_of_this_process_had_ends_with_the_first_one() -> None:
    async with MemoryStore() as store:
        edge = await billed_edge(store)
        edge.minutes = 59
        edge.beat(11, "xs-2")

        assert await edge.bill() == 1_000_000


@pytest.mark.parametrize("fault", ["too soon", "silence", "gap", "unreadable list"])
async def test_a_worker_that_may_be_there_goes_on(fault: str) -> None:
    async with MemoryStore() as store:
        edge = await billed_edge(store)
        edge.beat(60, "xs-1")
        if fault == "too soon":
            edge.beat(9)
        elif fault == "silence":
            edge.beat(10)
            edge.monotonic += 91
        elif fault == "gap":
            edge.minutes += 5
            edge.beat(9)
        else:
            edge.beat(20, unreadable=True)

        assert await edge.bill() == 99_000_000


async def test_a_worker_that_is_heard_of_again_has_not_ended() -> None:
    async with MemoryStore() as store:
        edge = await billed_edge(store)
        edge.beat(60, "xs-1")
        edge.beat(20)
        assert await edge.bill() == 1_000_000

        price = PriceFact(worker="xs-1", shape="xs", started_at=START, micro_usd_per_hour=1_000_000, source="machine")
        await edge.book.take([told(price, "again", 90 * MINUTE)])

        assert await edge.bill() == 99_000_000


def test_the_size_is_known_where_the_worker_seems_to_register_before_its_start() -> None:
    early = [later(event, -5 * MINUTE) if isinstance(event.data, NodeFact) else event for event in EVENTS]

    lines = ledger(early, 30 * HOUR)

    assert of_jobs(lines) == 200_000
    assert not any(line.purpose == "unattributed" for line in lines)


async def test_a_worker_that_has_ended_earlier_than_was_written_costs_nothing_on_later_days() -> None:
    worker = ModelWorker("xs-1", 0, 30 * HOUR, [(0, 1_000_000)], cpus=4)
    earlier = worker_events(ModelWorker("xs-1", 0, HOUR, [(0, 1_000_000)], cpus=4))[-1]
    async with MemoryStore() as store:
        await opened(store)
        edge = Edge(store)
        edge.minutes = 99 * 60
        await edge.book.take(worker_events(worker))
        assert await edge.bill() == 30_000_000

        await edge.book.take([earlier.model_copy(update={"id": f"{earlier.id}.again"})])

        assert await edge.bill() == 1_000_000
        assert await edge.book.journal.open_workers(REF) == ()
