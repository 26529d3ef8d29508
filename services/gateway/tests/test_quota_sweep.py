"""The sweep of quotas: it reads whole lists, ends nothing that runs unless a quota kills, and dead clusters wait."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.events import AdminFact, Event
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.slurm import Job, JobPage, ListJobs
from clusterra_contracts.rpc.slurm_jobs import CancelTasks, FurtherChanges, JobChanges
from clusterra_contracts.rpc.slurm_jobs import Update as JobUpdate
from clusterra_contracts.shapes import Catalogue
from clusterra_gateway.accounts.keyspace import ACCOUNTS, reservation_key
from clusterra_gateway.bus.requests import LedgerRequests, SlurmRequests
from clusterra_gateway.money.quotas.jobs import ListedPrices, LiveJob, changed_by
from clusterra_gateway.money.quotas.records import Quota, QuotaScope, Reservation, month_of
from clusterra_gateway.money.quotas.reservations import ClusterReservations, PendingReservation, Reservations
from clusterra_gateway.money.quotas.sweep import QuotaSweep
from clusterra_gateway.money.quotas.visit import CountedJob, KilledFor, Visit
from clusterra_lab.machine.process import until
from clusterra_runtime.nats.rpc import serve
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.store import Put
from gateway_world import CATALOGUE, World
from hypothesis import given
from hypothesis import strategies as st
from test_quotas import HOUR, quotas, reserved_jobs, set_quota, submit

EARLIER = timedelta(minutes=10)
REF = ClusterRef(tenant="acme", cluster="main")


def sweep_of(world: World) -> QuotaSweep:
    return QuotaSweep(
        Reservations(world.store), SlurmRequests(world.client), LedgerRequests(world.client), world.registry
    )


async def visit(world: World) -> None:
    await sweep_of(world).sweep(world.acme.ref, world.registry.clusters[world.acme.ref])


def add(world: World, job_id: str, **fields: Any) -> Job:
    job = world.acme.add_job(job_id, state=fields.pop("state", "PENDING"))
    world.acme.jobs[job_id] = job.model_copy(update={"time_limit_seconds": HOUR, **fields})
    return world.acme.jobs[job_id]


def reserved(job_id: str, **fields: Any) -> Reservation:
    known: dict[str, Any] = {"month": month_of(now()), "micro_usd": 50_000, "made_at": now()}
    return Reservation(
        id=f"id-{job_id}",
        tenant=REF.tenant,
        cluster=REF.cluster,
        scopes=(QuotaScope(kind="user", name="ada"),),
        user="ada",
        job_id=job_id,
        **known | fields,
    )


async def test_of_thousands_of_jobs_with_reservations_none_is_cancelled_and_the_last_without_one_is(
    world: World,
) -> None:
    boss = await world.login("boss@acme.example")
    await set_quota(boss, "0.00")
    for number in range(1, 5531):
        add(world, str(number))
        each = reserved(str(number))
        await world.store.write(Put(ACCOUNTS, reservation_key(REF, each.id), each.attributes(), Absent()))
    add(world, "5531")

    await visit(world)

    assert world.acme.cancelled == ["5531"]


async def test_what_is_reserved_for_the_last_of_thousands_of_jobs_is_found_when_it_is_changed(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, "1.00")
    job_id = (await submit(ada))[1]["job_id"]
    world.acme.jobs[job_id] = world.acme.jobs[job_id].model_copy(
        update={"time_limit_seconds": HOUR, "array_tasks": "0-9"}
    )
    for number in range(100_000, 105_100):
        each = reserved(str(number)).model_copy(update={"id": f"-{number}"})
        await world.store.write(Put(ACCOUNTS, reservation_key(REF, each.id), each.attributes(), Absent()))

    async with ada.patch(f"/v1/clusters/main/jobs/{job_id}", json={"time_limit": 121}) as answer:
        status = answer.status

    assert status == 403


@pytest.mark.parametrize(
    "fields",
    [
        {"submitted_at": now() - EARLIER},
        {"submitted_at": now() - EARLIER, "time_limit_seconds": None},
        {"time_limit_seconds": None},
        {},
        {"state": "SUSPENDED"},
    ],
    ids=["from before the quota", "and without a time limit", "without a time limit", "of sbatch", "suspended"],
)
async def test_a_quota_that_blocks_ends_nothing_that_runs(world: World, fields: dict[str, Any]) -> None:
    boss = await world.login("boss@acme.example")
    await set_quota(boss, "0.01")
    add(world, "7", **{"state": "RUNNING"} | fields)

    await visit(world)

    assert world.acme.cancelled == []
    assert await reserved_jobs(world) == {"7"}


async def test_a_job_that_waited_before_its_quota_was_set_counts_and_stays(world: World) -> None:
    boss = await world.login("boss@acme.example")
    await set_quota(boss, "0.01")
    add(world, "7", submitted_at=now() - EARLIER)

    await visit(world)

    assert world.acme.cancelled == []
    assert (await quotas(boss))[0]["used"]["amount"] == "0.050000"


async def test_a_submit_under_way_hides_no_job_that_its_user_submitted_before(world: World) -> None:
    boss = await world.login("boss@acme.example")
    await set_quota(boss, "0.01")
    begun_at = now() + timedelta(seconds=30)
    submitting = reserved("", micro_usd=1, made_at=begun_at)
    await world.store.write(Put(ACCOUNTS, reservation_key(REF, submitting.id), submitting.attributes(), Absent()))
    add(world, "7")
    add(world, "8", submitted_at=begun_at)

    await visit(world)

    assert world.acme.cancelled == ["7"]
    assert await reserved_jobs(world) == {""}


async def test_of_an_array_over_its_quota_only_the_tasks_that_wait_are_cancelled(world: World) -> None:
    boss = await world.login("boss@acme.example")
    await set_quota(boss, "0.11")
    add(world, "7", array_tasks="2-9")
    for task in ("7_0", "7_1"):
        add(world, task, state="RUNNING")

    await visit(world)

    assert world.acme.cancelled == []
    assert [(each.jobs, each.change) for each in world.acme.changes] == [("7_[2-9]", CancelTasks())]
    assert (await quotas(boss))[0]["used"]["amount"] == "0.100000"


async def test_a_quota_that_kills_ends_what_runs_without_room_in_one_visit(world: World) -> None:
    boss = await world.login("boss@acme.example")
    await set_quota(boss, "0.06", mode="block_and_kill")
    add(world, "7", state="RUNNING", submitted_at=now() - timedelta(seconds=2))
    add(world, "8", state="RUNNING")

    await visit(world)

    assert world.acme.cancelled == ["8"]


async def test_a_quota_kills_before_the_visit_reserves_for_other_jobs_which_is_bounded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusterra_gateway.money.quotas.sweep.RESERVE_SECONDS", 0.0)
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, "9.00")
    dear = [(await submit(ada))[1]["job_id"] for _ in range(2)]
    await set_quota(boss, "0.70", mode="block_and_kill")
    for number in range(100, 120):
        add(world, str(number))
    order, make = list[int](), Reservations.make

    async def noted(self: Reservations, pending: PendingReservation, *, force: bool = False) -> None:
        order.append(len(world.acme.cancelled))
        await make(self, pending, force=force)

    monkeypatch.setattr(Reservations, "make", noted)

    await visit(world)

    assert world.acme.cancelled[0] == dear[1]
    assert order == [1]


async def test_a_visit_under_way_ends_for_a_changed_quota_and_the_next_one_kills(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    boss = await world.login("boss@acme.example")
    await set_quota(boss, "9.00")
    for number in range(100, 130):
        add(world, str(number), state="RUNNING", submitted_at=now() - timedelta(seconds=200 - number))
    sweep, make = sweep_of(world), Reservations.make
    fact = AdminFact(kind="quota.changed", actor="boss", subject="user:ada")
    changed = Event(id="1", source="/test", type="cloud.clusterra.quota.changed", subject="1", time=now(), data=fact)

    async def told(self: Reservations, pending: PendingReservation, *, force: bool = False) -> None:
        await make(self, pending, force=force)
        if pending.reservation.job_id == "101":
            await set_quota(boss, "0.06", mode="block_and_kill")
            sweep.on_event(world.acme.ref, changed)

    monkeypatch.setattr(Reservations, "make", told)

    await sweep.sweep(world.acme.ref, world.registry.clusters[world.acme.ref])
    after_one = await reserved_jobs(world)
    await sweep.sweep(world.acme.ref, world.registry.clusters[world.acme.ref])

    assert after_one == {"100", "101"}
    assert "101" in world.acme.cancelled


async def test_the_events_of_one_cluster_let_no_other_one_be_looked_at_again(world: World) -> None:
    looked = list[str]()

    async def listed(subject: Subject, _request: ListJobs) -> JobPage:
        looked.append(subject.ref.cluster)
        return JobPage(jobs=(), total=0)

    boss = await world.login("boss@acme.example")
    for name in ("busy", "quiet"):
        await serve(world.client, f"slurm.acme.{name}.list", ListJobs, listed)
        await world.add_silent_cluster(name)
    await set_quota(boss, "9.00")
    sweep = sweep_of(world)
    sweeper = sweep.sweeper()
    await sweeper.once()
    looked.clear()
    fact = AdminFact(kind="quota.changed", actor="boss", subject="user:ada")
    event = Event(id="1", source="/test", type="cloud.clusterra.quota.changed", subject="1", time=now(), data=fact)

    for _ in range(5):
        sweep.on_event(ClusterRef(tenant="acme", cluster="busy"), event)
        await sweeper.once()

    assert looked.count("busy") >= 5
    assert "quiet" not in looked


@pytest.mark.usefixtures("quick_sweeps")
async def test_five_clusters_that_do_not_answer_do_not_hold_up_a_living_one(world: World) -> None:
    asked, answers = set[str](), asyncio.Event()

    async def silent(subject: Subject, _request: ListJobs) -> JobPage:
        asked.add(subject.ref.cluster)
        await answers.wait()
        return JobPage(jobs=(), total=0)

    boss = await world.login("boss@acme.example")
    names = {f"dead{number}" for number in range(5)}
    for name in sorted(names):
        await serve(world.client, f"slurm.acme.{name}.list", ListJobs, silent)
        await world.add_silent_cluster(name)
    await set_quota(boss, "0.00")
    await until(lambda: asked == names, seconds=90, what="the visits to the silent clusters")

    add(world, "7")

    await until(lambda: world.acme.cancelled == ["7"], seconds=90, what="the cancel at the living cluster")
    assert not answers.is_set()
    answers.set()


async def test_a_job_that_grows_as_it_starts_is_killed_before_newer_ones_that_fit(world: World) -> None:
    boss = await world.login("boss@acme.example")
    await set_quota(boss, "1.10", "tenant/acme", mode="block_and_kill")
    wide = {"exclusive": True, "constraints": "compute-xs", "min_nodes": 1, "max_nodes": 20, "tasks": 20}
    add(world, "7", submitted_at=now() - timedelta(seconds=30), **wide)
    await visit(world)
    add(world, "8", state="RUNNING", user="bob", uid=20002, started_at=now())
    await visit(world)

    submitted_at = world.acme.jobs["7"].submitted_at
    add(world, "7", state="RUNNING", submitted_at=submitted_at, **wide, node_count=20, started_at=now())
    await visit(world)
    await visit(world)

    assert world.acme.cancelled == ["7"]


async def test_a_job_that_shares_its_worker_with_no_other_is_reserved_with_the_price_of_the_whole_worker(
    world: World,
) -> None:
    boss = await world.login("boss@acme.example")
    await set_quota(boss, "5.00")
    add(world, "7", exclusive=True, constraints="compute-xs")

    await visit(world)

    assert (await quotas(boss))[0]["used"]["amount"] == "0.100000"


def test_a_change_of_the_constraint_is_priced() -> None:
    dear = CATALOGUE.shapes[0].model_copy(update={"name": "compute-small", "usd_per_hour": 24.0})
    prices = ListedPrices(Catalogue(shapes=(*CATALOGUE.shapes, dear)))
    change = JobUpdate(changes=JobChanges(), further=FurtherChanges(constraints="compute-small"))

    costs = [prices.projected([each]) for each in (job("7"), changed_by(job("7"), change))]

    assert costs == [50_000, 12_000_000]


IDS = st.integers(1, 30).map(str)
QUOTA = Quota(
    scope=QuotaScope(kind="user", name="ada"),
    limit_micro_usd=0,
    mode="block_and_kill",
    buffer_percent=0,
    set_by="boss",
    set_at=now() - EARLIER,
)


def job(job_id: str) -> Job:
    return Job(
        job_id=job_id,
        name="solve",
        user="ada",
        uid=1,
        state="PENDING",
        partition="main",
        submitted_at=now(),
        time_limit_seconds=HOUR,
    )


@given(st.sets(IDS), st.sets(IDS), st.sets(IDS), st.integers(1, 7))
def test_whatever_the_pages_a_visit_takes_no_job_with_a_reservation_for_one_without(
    active: set[str], booked: set[str], unreadable: set[str], page: int
) -> None:
    prices = ListedPrices(CATALOGUE)
    live = {each: LiveJob(job(each)) for each in active}
    for each in active:
        live[each].add(job(each), prices.asked(job(each)))
    reservations = [reserved(each) for each in sorted(booked)]
    found = Visit(live, [QUOTA], now())

    found.add(ClusterReservations((), frozenset(unreadable)), prices)
    for at in range(0, len(reservations), page):
        found.add(ClusterReservations(tuple(reservations[at : at + page]), frozenset()), prices)

    assert {each.job_id for each in found.others()} == active - booked - unreadable
    assert {each.job_id for each in found.ended} == booked - active
    assert {each.job_id for each in found.killed_for[QUOTA.scope].live} == booked & active


@given(st.sets(IDS, min_size=1), st.integers(0, 30).map(str))
def test_the_next_visit_settles_first_what_the_last_one_did_not(ended: set[str], last: str) -> None:
    prices = ListedPrices(CATALOGUE)
    found = Visit({}, [], now(), settled=f"id-{last}")

    found.add(ClusterReservations(tuple(reserved(each) for each in sorted(ended)), frozenset()), prices)

    in_turn = [each.id for each in found.ended]
    assert sorted(in_turn) == sorted(f"id-{each}" for each in ended)
    assert in_turn == sorted(in_turn, key=lambda each: (each <= f"id-{last}", each))


@given(
    st.dictionaries(IDS, st.tuples(st.integers(0, 1000), st.integers(0, 100))),
    st.sets(IDS),
    st.integers(-100, 2000),
    st.integers(0, 300),
)
def test_a_quota_kills_the_newest_jobs_and_no_more_than_it_must(
    jobs: dict[str, tuple[int, int]], gone: set[str], over: int, ended: int
) -> None:
    live = [CountedJob(now() + timedelta(seconds=at), cost, job_id) for job_id, (at, cost) in jobs.items()]
    costs = {each.job_id: each.micro_usd for each in live}

    killed = KilledFor(live, ended).beyond(over, gone)

    left = over - ended - sum(costs[each] for each in {*killed, *(gone & costs.keys())})
    assert not set(killed) & gone
    assert left <= 0 or set(killed) | gone >= costs.keys()
    if killed:
        assert left + costs[killed[-1]] > 0
        kept = costs.keys() - set(killed) - gone
        assert all(jobs[each][0] <= jobs[killed[-1]][0] for each in kept)
