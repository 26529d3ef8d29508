"""The ledger on the store port: replays and any order change nothing, and written lines are the computed ones."""

import random
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta

import pytest
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.events import Event, JobFact, WorkerFact
from clusterra_contracts.identity import ClusterRef, SlurmUser, TenantRef
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.costs import (
    CostPage,
    CostRow,
    ReadCosts,
    ReadJobCost,
    ReadJobCosts,
    ReadRunCosts,
    ReadSpending,
)
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.usage import ReadUsage
from clusterra_contracts.shapes import Catalogue, Shape
from clusterra_events.archive import Archive
from clusterra_events.archive_table import ARCHIVE
from clusterra_events.ledger import keyspace
from clusterra_events.ledger.account import Line, rates_at
from clusterra_events.ledger.charge import microseconds
from clusterra_events.ledger.facts import FACT, Run, facts_of
from clusterra_events.ledger.forgetting import Forgetting
from clusterra_events.ledger.journal import Journal
from clusterra_events.ledger.keyspace import LEDGER
from clusterra_events.ledger.rebuild import rebuild
from clusterra_events.ledger.reports import Reports
from clusterra_events.ledger.spending import OVERHEAD, Payer, SpendingReader, sums_of
from clusterra_events.ledger.statements import Statements
from clusterra_events.ledger.usage import UsageReader
from clusterra_events.retention import Retention
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Attributes
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.store import Put, Update
from hypothesis import given
from hypothesis import strategies as st

from .ledger_histories import REF, START, ModelWorker, at, history, job_events, told, worker_events

HOUR = 3_600_000_000
FIRST, LAST = date(2026, 1, 1), date(2026, 1, 31)
NOON = datetime(2026, 1, 3, 12, tzinfo=UTC)
DAY = 86_400.0
BINDING = ClusterBinding(
    name="acme-main",
    slurmrestd_url="http://127.0.0.1:6820",
    jwt_key="file:/dev/null",
    operator=SlurmUser(name="clusterra-operator", uid=64031, gid=64031),
    catalogue=Catalogue(shapes=(Shape(name="xs", family="general", size="xs", vcpu=4, memory_gib=8, usd_per_hour=1),)),
)


class Book:
    """A ledger in memory."""

    def __init__(self, store: MemoryStore) -> None:
        self.now = NOON.timestamp()
        self.journal = Journal(store, retention_seconds=90 * DAY)
        self.statements = Statements(store, self.journal, retention_seconds=9000 * DAY, clock=lambda: self.now)
        self.reports = Reports(self.journal, self.statements)

    async def take(self, events: Iterable[Event], ref: ClusterRef = REF) -> None:
        for number, event in enumerate(events):
            await self.journal.take(Subject("event", ref, event.kind), event, number)

    async def lines(self, as_of: datetime = NOON) -> list[Line]:
        found = await self.statements.lines(REF, FIRST, LAST, as_of)
        return sorted(found, key=lambda line: (line.worker, line.day, line.purpose, line.job_id, line.run))


async def opened(store: MemoryStore) -> Book:
    await store.create_tables(LEDGER, ARCHIVE)
    return Book(store)


@given(st.integers(0, 10**9))
async def test_any_order_any_repetition_and_a_restart_give_the_same_lines(seed: int) -> None:
    made = history(seed, workers=3, jobs=12)
    shuffled = [*made.events, *made.events[::2]]
    random.Random(seed).shuffle(shuffled)
    async with MemoryStore() as one, MemoryStore() as other:
        first, second = await opened(one), await opened(other)
        await first.take(made.events)
        await second.take(shuffled[: len(shuffled) // 2])
        await second.lines()  # what is remembered of these must not hide what follows
        await second.take(shuffled[len(shuffled) // 2 :])

        lines = await first.lines()

        assert await second.lines() == lines
        assert await Book(other).lines() == lines
        total = sum(line.micro_usd or 0 for line in lines)
        until = round((NOON - START).total_seconds() * 1_000_000)
        assert abs(total - made.bill(until)) <= len({(line.worker, line.day) for line in lines}) / 2


async def test_a_fact_and_a_run_that_cannot_be_read_cost_nobody_else_their_costs() -> None:
    worker = ModelWorker("xs-1", 0, None, [(0, 1_000_000)], cpus=4)
    events = worker_events(worker) + [
        each for job in (1, 2) for each in job_events(job, 0, ("xs-1",), (0, HOUR), (1, 1))
    ]
    newer: Attributes = {"fact": '{"type": "of a newer release"}'}
    async with MemoryStore() as store:
        book = await opened(store)
        await book.take(events)
        before = await book.lines()
        await store.write(Put(LEDGER, keyspace.fact_key(REF, "xs-1", "newer"), newer, Absent()))
        await store.write(Update(LEDGER, keyspace.open_key(REF, "xs-1"), set={"fact": "newer"}))
        (run,) = await book.journal.runs(REF, "1")
        key = keyspace.run_key(REF, "1", int(run.submitted_at.timestamp()), run.restarts)
        await store.write(Update(LEDGER, key, set={"uid": "nobody"}))

        after = await book.lines()
        viewer = Viewer(user=SlurmUser(name="root", uid=64_000, gid=64_000), admin=True)
        other = await book.reports.job(Subject("ledger", REF, "job"), ReadJobCost(viewer=viewer, job_id="2"))

        assert after == before
        assert await book.journal.runs(REF, "1") == ()
        assert (other.runs, other.unknown) == (1, False)


async def test_a_large_array_costs_what_all_its_tasks_cost() -> None:
    events = [
        each for name in ("xs-1", "xs-2") for each in worker_events(ModelWorker(name, 0, HOUR, [(0, 10**6)], cpus=1))
    ]
    for task, worker in (("7_0", "xs-1"), ("7_999", "xs-2")):  # the last one in the order of the table
        for event in job_events(7, 0, (worker,), (0, HOUR), (1, 1)):
            events.append(told(event.data.model_copy(update={"job_id": task}), f"{task}.{event.kind}", 0))
    async with MemoryStore() as store:
        book = await opened(store)
        await book.take(events)
        (run,) = await book.journal.runs(REF, "7_0")
        for number in range(1, 2_300):
            if number != 999:
                other = run.model_copy(update={"job_id": f"7_{number}", "ended_at": run.started_at})
                values = {**other.model_dump(mode="json"), "nodes": '["xs-1"]'}
                key = keyspace.run_key(REF, other.job_id, int(run.submitted_at.timestamp()), 0)
                await store.write(Put(LEDGER, key, values, Absent()))
        viewer = Viewer(user=SlurmUser(name="root", uid=64_000, gid=64_000), admin=True)

        whole, one = [
            await book.reports.job(Subject("ledger", REF, "job"), ReadJobCost(viewer=viewer, job_id=job_id))
            for job_id in ("7", "7_999")
        ]

        assert (whole.runs, whole.micro_usd, whole.unknown) == (2_300, 2 * 10**6, False)
        assert (one.runs, one.micro_usd) == (1, 10**6)


@given(st.integers(0, 10**9))
async def test_written_lines_are_the_computed_ones_also_after_a_late_fact(seed: int) -> None:
    made = history(seed, workers=3, jobs=12)
    *early, late = made.events
    async with MemoryStore() as store:
        book = await opened(store)
        await book.take(early)
        before = await book.lines()

        await book.statements.settle(REF)

        assert await book.lines() == before
        still_open = {worker.name for worker in await book.journal.open_workers(REF)}
        assert still_open == {worker.name for worker in made.workers if worker.end is None}

        await book.take([late])
        computed = await book.lines()
        await book.statements.settle(REF)

        assert await book.lines() == computed


async def test_a_run_ends_where_its_job_is_queued_again_whichever_event_comes_first() -> None:
    worker = ModelWorker("xs-1", 0, None, [(0, 1_000_000)], cpus=1)
    events = [
        *worker_events(worker),
        *job_events(1, 0, ("xs-1",), (0, None), (1, 100)),
        *job_events(1, 1, ("xs-1",), (HOUR, 2 * HOUR), (1, 100)),
    ]
    amounts = []
    for order in (events, events[::-1]):
        async with MemoryStore() as store:
            book = await opened(store)

            await book.take(order)

            lines = await book.lines(START + timedelta(hours=2))
            amounts.append(sum(line.micro_usd or 0 for line in lines if line.job_id == "1"))

    assert amounts == [2_000_000, 2_000_000]


async def test_the_ledger_is_rebuilt_from_the_archive() -> None:
    made = history(7, workers=4, jobs=20)
    async with MemoryStore() as store, MemoryStore() as emptied:
        book, anew = await opened(store), await opened(emptied)
        archive = Archive(store, ARCHIVE, retention=Retention(90 * DAY))
        for number, event in enumerate(made.events, start=1):
            await archive.keep(Subject("event", REF, event.kind), event, number)
        await book.take(made.events)

        taken = await rebuild(archive, anew.journal, REF)

        assert taken == len({event.id for event in made.events})
        assert await anew.lines() == await book.lines()


def viewer(uid: int, *, admin: bool = False) -> Viewer:
    return Viewer(user=SlurmUser(name=f"user{uid}", uid=uid, gid=uid), admin=admin)


async def every_page(book: Book, request: ReadCosts) -> tuple[list[CostRow], CostPage]:
    rows: list[CostRow] = []
    while True:
        page = await book.reports.costs(Subject("ledger", REF, "costs"), request)
        rows.extend(page.rows)
        if page.cursor is None:
            return rows, page
        request = request.model_copy(update={"cursor": page.cursor})


async def test_the_rows_of_every_report_add_up_to_the_same_bill() -> None:
    made = history(3, workers=5, jobs=40)
    async with MemoryStore() as store:
        book = await opened(store)
        await book.take(made.events)
        await book.statements.settle(REF)
        bills = []
        for by in (
            ("job",),
            ("user",),
            ("account",),
            ("template",),
            ("worker",),
            ("day", "user", "job"),
            ("shape",),
            (),
        ):
            request = ReadCosts(viewer=viewer(1000, admin=True), first=FIRST, last=LAST, by=by, limit=7)

            rows, page = await every_page(book, request)

            bill = sum(row.micro_usd or 0 for row in rows)
            assert bill == page.shares_micro_usd + page.overhead_micro_usd
            assert page.shares_micro_usd == sum(row.micro_usd or 0 for row in rows if row.purpose == "job")
            bills.append(bill)

    assert min(bills) > 0
    assert max(bills) - min(bills) < 1_000  # living workers cost more with every moment


@pytest.mark.parametrize("settled", [False, True])
async def test_the_costs_by_template_are_those_of_its_jobs(settled: bool) -> None:
    made = history(3, workers=5, jobs=40)
    async with MemoryStore() as store:
        book = await opened(store)
        await book.take(made.events)
        if settled:
            await book.statements.settle(REF)

        admin, own = [
            (await every_page(book, ReadCosts(viewer=each, first=FIRST, last=LAST, by=("template", "job"))))[0]
            for each in (viewer(1000, admin=True), viewer(20002))
        ]

    jobs = [row for row in admin if row.purpose == "job"]
    assert {row.template for row in jobs} == {"", "template1", "template2", "template3"}
    assert all(row.template == (f"template{number % 4}" if (number := int(row.job_id)) % 4 else "") for row in jobs)
    assert {row.template for row in admin if row.purpose != "job"} == {""}
    assert own
    assert {int(row.job_id) % 7 for row in own} == {2}


def test_a_fact_of_the_release_before_has_no_template() -> None:
    made = history(3, workers=2, jobs=10)
    fact = next(fact for event in made.events for _, fact in facts_of(event) if isinstance(fact, Run) and fact.template)

    assert FACT.validate_json(fact.model_dump_json(exclude={"template"})) == fact.model_copy(update={"template": ""})


async def test_a_person_sees_the_costs_of_their_own_jobs_alone() -> None:
    made = history(3, workers=5, jobs=40)
    async with MemoryStore() as store:
        book = await opened(store)
        await book.take(made.events)

        rows, page = await every_page(book, ReadCosts(viewer=viewer(20002), first=FIRST, last=LAST, by=("user", "job")))

        assert {row.uid for row in rows} == {20002}
        assert page.overhead_micro_usd == 0
        assert {row.purpose for row in rows} == {"job"}
        with pytest.raises(RpcFailed, match="not_found"):
            await book.reports.job(
                Subject("ledger", REF, "job"), ReadJobCost(viewer=viewer(20001), job_id=rows[0].job_id)
            )


@pytest.mark.parametrize("cursor", ["x", "MjAyNg==", "é"])
async def test_a_foreign_cursor_is_refused(cursor: str) -> None:
    async with MemoryStore() as store:
        book = await opened(store)

        with pytest.raises(RpcFailed, match="cursor"):
            await book.reports.costs(
                Subject("ledger", REF, "costs"),
                ReadCosts(viewer=viewer(1000), first=FIRST, last=LAST, cursor=cursor),
            )


async def test_a_job_costs_the_sum_of_its_runs_and_an_array_that_of_its_tasks() -> None:
    worker = ModelWorker("xs-1", 0, 9 * HOUR, [(0, 1_000_000)], cpus=4)
    tasks = [
        event.model_copy(
            update={"data": event.data.model_copy(update={"job_id": f"7_{task}"}), "id": f"{event.id}.{task}"}
        )
        for task in (1, 2)
        for event in job_events(7, 0, ("xs-1",), (0, HOUR), (task, 100))
    ]
    async with MemoryStore() as store:
        book = await opened(store)
        await book.take([*worker_events(worker), *tasks])

        async def cost(job_id: str) -> int | None:
            request = ReadJobCost(viewer=viewer(1000, admin=True), job_id=job_id)
            return (await book.reports.job(Subject("ledger", REF, "job"), request)).micro_usd

        assert [await cost(job_id) for job_id in ("7_1", "7_2", "7", "8")] == [250_000, 500_000, 750_000, 0]


async def test_the_runs_of_a_requeued_job_are_told_apart_and_cost_what_the_job_does() -> None:
    workers = [ModelWorker(name, 0, 9 * HOUR, [(0, price)], cpus=4) for name, price in (("a", 1_000_000), ("b", 8))]
    first, second = (
        [
            event.model_copy(update={"id": f"{event.id}.{restarts}"})
            for event in job_events(7, restarts, (worker,), (begin, begin + HOUR), (4, 100))
        ]
        for restarts, worker, begin in ((0, "a", HOUR), (1, "b", 3 * HOUR))
    )
    async with MemoryStore() as store:
        book = await opened(store)
        await book.take([*worker_events(workers[0]), *worker_events(workers[1]), *first, *second])

        read = ReadRunCosts(viewer=viewer(1000, admin=True), job_id="7")
        told = await book.reports.runs(Subject("ledger", REF, "runs"), read)
        with pytest.raises(RpcFailed, match="not_found"):
            await book.reports.runs(Subject("ledger", REF, "runs"), read.model_copy(update={"viewer": viewer(29999)}))

    assert [(run.started_at, run.micro_usd) for run in told.runs] == [(at(HOUR), 1_000_000), (at(3 * HOUR), 8)]
    assert (told.job.runs, told.job.micro_usd) == (2, 1_000_008)


async def test_a_job_that_ended_in_the_second_of_its_start_costs_nothing() -> None:
    worker = ModelWorker("xs-1", 0, HOUR, [(0, 1_000_000)], cpus=4)
    async with MemoryStore() as store:
        book = await opened(store)
        await book.take([*worker_events(worker), *job_events(7, 0, ("xs-1",), (HOUR // 2, HOUR // 2), (1, 100))])

        request = ReadJobCost(viewer=viewer(1000, admin=True), job_id="7")
        cost = await book.reports.job(Subject("ledger", REF, "job"), request)

    assert (cost.runs, cost.open_runs, cost.micro_usd, cost.unknown) == (1, 0, 0, False)


async def test_the_costs_of_several_jobs_are_those_of_each_and_say_which_run() -> None:
    start = round((datetime.now(UTC) - timedelta(hours=2) - START).total_seconds() * 1_000_000)
    worker = ModelWorker("xs-1", start, None, [(start, 1_000_000)], cpus=4)
    ended = job_events(1, 0, ("xs-1",), (start, start + HOUR), (1, 100))
    running = job_events(2, 0, ("xs-1",), (start, None), (1, 100))
    async with MemoryStore() as store:
        book = await opened(store)
        await book.take([*worker_events(worker), *ended, *running])
        request = ReadJobCosts(job_ids=("1", "2", "3"), since=at(start).date())

        found = (await book.reports.jobs(Subject("ledger", REF, "jobs"), request)).costs
        foreign = request.model_copy(update={"viewer": viewer(4999)})
        not_theirs = (await book.reports.jobs(Subject("ledger", REF, "jobs"), foreign)).costs
        single = await book.reports.job(
            Subject("ledger", REF, "job"), ReadJobCost(viewer=viewer(1000, admin=True), job_id="1")
        )

    assert [(cost.job_id, cost.running) for cost in found] == [("1", False), ("2", True)]
    assert found[0].micro_usd == single.micro_usd == 250_000
    assert not_theirs == ()


async def test_the_usage_of_a_user_is_what_their_running_jobs_cost() -> None:
    began = datetime.now(UTC) - START - timedelta(minutes=30)
    start = round(began.total_seconds() * 1_000_000)
    worker = ModelWorker("xs-1", start, None, [(start, 1_000_000)], cpus=4)
    events = [
        *worker_events(worker),
        *job_events(1, 0, ("xs-1",), (start, None), (1, 100)),
        *job_events(2, 0, ("xs-1",), (start, None), (2, 100)),
    ]
    async with MemoryStore() as store:
        book = await opened(store)
        await book.take(events)
        reader = UsageReader(SpendingReader(book.statements), {REF: BINDING})

        one = await reader.read(TenantRef(tenant="acme"), ReadUsage(uid=20001))
        both = await reader.read(TenantRef(tenant="acme"), ReadUsage())
        nobody = await reader.read(TenantRef(tenant="rival"), ReadUsage())

    assert (one.running_jobs, one.burn_rate_micro_usd_per_hour) == (1, 250_000)
    assert one.pending_bill_micro_usd == pytest.approx(125_000, rel=0.01)
    assert (both.running_jobs, both.burn_rate_micro_usd_per_hour) == (2, 750_000)
    assert both.as_of is not None
    assert (nobody.running_jobs, nobody.as_of) == (0, None)


async def test_the_forecast_is_the_month_to_date_and_what_runs_until_its_known_end_or_the_months() -> None:
    as_of = datetime(2026, 1, 31, 12, tzinfo=UTC)
    start = round((as_of - timedelta(hours=1) - START).total_seconds() * 1_000_000)
    worker = ModelWorker("xs-1", start, None, [(start, 1_000_000)], cpus=4)
    limited, endless = (job_events(n, 0, ("xs-1",), (start, None), (1, 100)) for n in (1, 2))
    limited = [
        each.model_copy(update={"data": each.data.model_copy(update={"time_limit_seconds": 10_800.0})})
        for each in limited
    ]
    long_ago = round((datetime(2026, 1, 10, tzinfo=UTC) - START).total_seconds() * 1_000_000)
    before = ModelWorker("xs-0", long_ago, long_ago + HOUR, [(long_ago, 1_000_000)], cpus=1)
    earlier = job_events(8, 0, ("xs-0",), (long_ago, long_ago + HOUR), (1, 100))
    async with MemoryStore() as store:
        book = await opened(store)
        await book.take([*worker_events(worker), *worker_events(before), *limited, *endless, *earlier])
        facts = await book.statements.open_facts(REF)
        rates = [rate for known in facts.values() for rate in rates_at(known, microseconds(as_of))]

        sums = sums_of(rates, await book.statements.lines(REF, as_of.date().replace(day=1), as_of.date(), as_of), as_of)

    one, two = (sums[Payer(20000 + n, f"user{n}", f"account{n}")] for n in (1, 2))
    # Job 1 runs two more hours, and job 2 the twelve until the month's end. Job 8 was of the same user as job 1.
    assert (one.rate.micro_usd, one.pending.micro_usd, one.forecast) == (250_000, 250_000, 750_000)
    assert (two.rate.micro_usd, two.pending.micro_usd, two.forecast) == (250_000, 250_000, 3_250_000)
    assert sums[Payer(20001, "user1", "account2")].forecast == 1_000_000
    overhead = sums[OVERHEAD]
    assert overhead.rate.micro_usd == 500_000
    assert overhead.forecast == overhead.month.micro_usd == 500_000


async def test_an_amount_of_which_nothing_is_known_is_null_and_a_part_that_is_unknown_is_flagged() -> None:
    start = round((datetime.now(UTC) - timedelta(minutes=30) - START).total_seconds() * 1_000_000)
    worker = ModelWorker("xs-1", start, None, [], cpus=4)
    async with MemoryStore() as store:
        book = await opened(store)
        await book.take([*worker_events(worker), *job_events(1, 0, ("xs-1",), (start, None), (1, 100))])
        reader = SpendingReader(book.statements)

        own = await reader.read(Subject("ledger", REF, "spending"), ReadSpending(viewer=viewer(20001, admin=False)))
        all_rows = await reader.read(Subject("ledger", REF, "spending"), ReadSpending(viewer=viewer(1000, admin=True)))
        others = await reader.read(Subject("ledger", REF, "spending"), ReadSpending(viewer=viewer(20002, admin=False)))

    (row,) = own.rows
    assert (row.user, row.running_jobs, row.unknown) == ("user1", 1, True)
    assert row.burn_rate_micro_usd_per_hour is row.month_to_date_micro_usd is row.forecast_micro_usd is None
    assert {each.purpose for each in all_rows.rows} == {"job", "overhead"}
    assert others.rows == ()


async def test_with_an_identity_source_only_the_mapped_uid_is_the_persons() -> None:
    began = datetime.now(UTC) - timedelta(minutes=30) - START
    start = round(began.total_seconds() * 1_000_000)
    worker = ModelWorker("xs-1", start, None, [(start, 1_000_000)], cpus=4)
    events = [*worker_events(worker), *job_events(1, 0, ("xs-1",), (start, None), (1, 100))]
    async with MemoryStore() as store:
        book = await opened(store)
        await book.take(events)
        reader = UsageReader(
            SpendingReader(book.statements), {REF: BINDING.model_copy(update={"identity_source": "campus"})}
        )
        tenant = TenantRef(tenant="acme")

        stranger = await reader.read(tenant, ReadUsage(uid=20001))
        elsewhere = await reader.read(tenant, ReadUsage(uid=20001, mapped={"lab": 20001}))
        person = await reader.read(tenant, ReadUsage(uid=30000, mapped={"campus": 20001}))
        everybody = await reader.read(tenant, ReadUsage())

    assert [each.running_jobs for each in (stranger, elsewhere, person, everybody)] == [0, 0, 1, 1]
    assert stranger.burn_rate_micro_usd_per_hour == 0
    assert person.burn_rate_micro_usd_per_hour == everybody.burn_rate_micro_usd_per_hour == 250_000


async def test_nothing_of_a_forgotten_cluster_is_left_and_all_of_another() -> None:
    made = history(7, workers=4, jobs=20)
    rival = ClusterRef(tenant="rival", cluster="main")
    async with MemoryStore() as store:
        book = await opened(store)
        await book.take(made.events)
        await book.statements.settle(REF)
        await book.take(made.events[:9])
        await book.take(made.events, rival)
        forgetting = Forgetting(store, retention_seconds=90 * DAY, clock=lambda: NOON)

        while await forgetting.forget(REF, 50):
            pass

        assert await Book(store).lines() == []
        assert [await book.journal.runs(REF, str(job)) for job in range(1, 21)] == [()] * 20
        assert len(await book.journal.open_workers(rival)) == 4


async def test_events_of_earlier_releases_are_no_facts() -> None:
    bare = JobFact(
        kind="job.running",
        job_id="1",
        name="a",
        user="a",
        uid=1,
        partition="main",
        state="RUNNING",
        nodes=("xs-1",),
        submitted_at=START,
        started_at=START,
    )
    gone = WorkerFact(kind="worker.lost", worker="xs-1", shape="xs")
    async with MemoryStore() as store:
        book = await opened(store)

        await book.take([told(bare, "1", 0), told(gone, "1", 0)])

        assert await book.journal.open_workers(REF) == ()
    assert at(0) == START
