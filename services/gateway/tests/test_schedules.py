"""Schedules: each tick is submitted exactly once, whoever submits it and wherever one dies."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, override

import aiohttp
import pytest
from clusterra_contracts.events import AdminFact, Event
from clusterra_contracts.identity import ClusterRef, now
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.bus.requests import EdgeRequests, SlurmRequests
from clusterra_gateway.directory.maps.map_records import MappedUsers, MapRecords
from clusterra_gateway.files.buckets import Buckets
from clusterra_gateway.files.presigned import Bounds
from clusterra_gateway.money.quotas.admission import Admission
from clusterra_gateway.money.quotas.reservations import Reservations
from clusterra_gateway.staging.staging_records import StagingRecords
from clusterra_gateway.submission.planning import Planning
from clusterra_gateway.submits.desk import SubmitDesk
from clusterra_gateway.submits.held_submits import HeldSubmits
from clusterra_gateway.submits.keys import SubmitKeys
from clusterra_gateway.templates import schedule_handlers, ticking
from clusterra_gateway.templates.library import Library, load_catalogue
from clusterra_gateway.templates.records import TemplateRecords, forget_templates
from clusterra_gateway.templates.rendering import Renderings
from clusterra_gateway.templates.schedule import InvalidCron, Outcome, Schedule, check_cron
from clusterra_gateway.templates.schedule_records import ScheduleRecords
from clusterra_gateway.templates.scheduled_submits import ScheduledSubmits
from clusterra_gateway.templates.table import DUE, TEMPLATES
from clusterra_gateway.templates.ticking import Ticking
from clusterra_gateway.workflows import start
from clusterra_gateway.workflows.controller import WorkflowController
from clusterra_gateway.workflows.room import WorkflowParts
from clusterra_gateway.workflows.start import WorkflowStarts
from clusterra_gateway.workflows.workflow_records import WorkflowRecords
from clusterra_lab.machine.process import until
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.outbox_item import INDEX_PARTITIONS
from clusterra_runtime.store.page import Page
from clusterra_runtime.store.store import StoreUnavailable, Table, Update
from gateway_world import World, no_message
from hypothesis import given
from hypothesis import strategies as st
from sse_reader import sse_reader
from template_definition import OWN

BODY = {"name": "nightly", "template_id": "shell", "cron": "*/5 * * * *", "params": {"commands": "true"}}
START = datetime(2026, 11, 24, 12, 1, tzinfo=UTC)


async def made(browser: aiohttp.ClientSession, status: int = 201, **changes: Any) -> dict[str, Any]:
    async with browser.post("/v1/schedules", json=BODY | changes) as answer:
        assert answer.status == status, await answer.text()
        shown: dict[str, Any] = await answer.json()
        return shown


async def read(browser: aiohttp.ClientSession, schedule_id: str) -> dict[str, Any]:
    async with browser.get(f"/v1/schedules/{schedule_id}") as answer:
        assert answer.status == 200, await answer.text()
        shown: dict[str, Any] = await answer.json()
        return shown


class Replica:
    """Submits schedules of a world at times that the test says."""

    def __init__(self, world: World, store: MemoryStore | None = None) -> None:
        self.at = START
        directory = Directory(store or world.store, Outbox(world.store, no_message))
        slurm, records = SlurmRequests(world.client), WorkflowRecords(world.store, directory.outbox)
        reservations = Reservations(world.store)
        admission = Admission(reservations, slurm, world.registry)
        library = Library(load_catalogue(world.settings.templates_dir), TemplateRecords(directory, Registry()))
        edge, bounds = EdgeRequests(world.client, 5.0), Bounds(900, 3600, 2**40)
        planning = Planning(Buckets(world.registry, Secrets()), bounds, edge, world.registry)
        held = HeldSubmits(StagingRecords(world.store))
        desk = SubmitDesk(slurm, SubmitKeys(world.store), admission, planning, held)
        users = MappedUsers(MapRecords(world.store))
        work = WorkflowController(records, directory, users, slurm, desk)
        workflows = WorkflowParts(records, work, WorkflowStarts(records, work, planning))
        self.records = ScheduleRecords(directory)
        submits = ScheduledSubmits(self.records, (directory, users), Renderings(library), slurm, workflows, desk)
        self.ticking = Ticking(self.records, submits)
        self.ticking.clock = lambda: self.at

    async def tick(self, at: datetime) -> None:
        self.at = at
        await self.ticking.sweeper().once()


async def first_tick_at(world: World, schedule_id: str, at: datetime) -> None:
    """Moves a schedule in time, so that a test need not wait for it."""
    key = Key("schedules", f"acme#{schedule_id}")
    await world.store.write(Update(TEMPLATES, key, set={"next_tick": at.isoformat()}))


async def as_the_release_before_writes_it(world: World, schedule_id: str) -> None:
    """Takes a schedule out of the index."""
    await world.store.write(Update(TEMPLATES, Key("schedules", f"acme#{schedule_id}"), remove=(DUE.partition,)))


@pytest.fixture(autouse=True)
def _only_replicas_of_the_test(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway itself looks for schedules only in the test that is about it."""
    if "leader" not in request.node.name:
        monkeypatch.setattr(ticking, "INTERVAL_SECONDS", 3600.0)


@pytest.mark.parametrize(
    "cron", ["*/4 * * * *", "* * * * *", "0,59 * * * *", "0 0 30 2 *", "@daily", "0 0 0 1 1 *", "", "a b c d e"]
)
def test_a_bad_cron_is_refused(cron: str) -> None:
    with pytest.raises(InvalidCron):
        check_cron(cron, START)


@pytest.mark.parametrize("cron", ["*/5 * * * *", "30 2 * * 1-5", "0 0 29 2 *", "0 8,12 * * MON", "0 0 29 2 */8"])
def test_a_good_cron_has_a_first_tick(cron: str) -> None:
    assert check_cron(cron, START) > START


@given(
    away=st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=900)),
    cron=st.sampled_from(["*/5 * * * *", "30 2 * * 1-5", "0 0 29 2 *"]),
    missed=st.sampled_from(["skip", "last"]),
)
def test_after_a_tick_nothing_is_due(away: timedelta, cron: str, missed: Any) -> None:
    schedule = Schedule(
        id="0" * 16,
        tenant="acme",
        cluster="main",
        name="x",
        member="m",
        template_id="shell",
        params={},
        inputs={},
        sbatch_override={},
        cron=cron,
        missed=missed,
        created_at=START,
        next_tick=check_cron(cron, START),
    )
    at = START + away

    due, latest = schedule.due(at), schedule.latest(at)

    assert (latest is None) == (schedule.next_tick > at)
    if latest is not None:
        assert schedule.next_tick <= latest <= at
        done = schedule.after(latest, Outcome("x"))
        assert done.next_tick > at or at - latest > timedelta(hours=12)
    if due is not None:
        assert due == latest
        assert at - due <= (timedelta(minutes=10) if missed == "skip" else timedelta(hours=12))


async def test_a_tick_makes_one_job_however_many_submit_it(world: World) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada)
    tick = datetime.fromisoformat(schedule["next_tick"])
    replicas = [Replica(world) for _ in range(3)]

    await asyncio.gather(*(each.tick(tick - timedelta(seconds=1)) for each in replicas))
    assert world.acme.submits == []
    await asyncio.gather(*(each.tick(tick + timedelta(seconds=1)) for each in replicas))
    await asyncio.gather(*(each.tick(tick + timedelta(seconds=2)) for each in replicas))

    assert list(world.acme.jobs) == ["1"]
    shown = await read(ada, schedule["id"])
    assert (shown["last_job"], shown["last_outcome"]) == ("1", "submitted")
    assert datetime.fromisoformat(shown["next_tick"]) == tick + timedelta(minutes=5)
    assert world.acme.submits[0].user.name == "ada"


async def test_who_dies_behind_the_submit_makes_no_second_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada)
    tick = datetime.fromisoformat(schedule["next_tick"])

    async def dies(*_arguments: object) -> bool:
        raise StoreUnavailable("the gateway has died here")

    with monkeypatch.context() as patched:
        patched.setattr(ScheduleRecords, "replace", dies)
        await Replica(world).tick(tick)
    assert (await read(ada, schedule["id"]))["last_job"] is None
    await Replica(world).tick(tick + timedelta(minutes=1))

    assert list(world.acme.jobs) == ["1"]
    assert (await read(ada, schedule["id"]))["last_job"] == "1"


async def test_a_tick_reserves_and_one_that_does_not_fit_is_left_out(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = 3600.0
    async with boss.put("/v1/quotas/user/ada", json={"limit": "0.50", "mode": "block"}) as answer:
        assert answer.status == 200
    schedules = [await made(ada, name="first"), await made(ada, name="second")]

    for schedule in schedules:
        await Replica(world).tick(datetime.fromisoformat(schedule["next_tick"]))

    outcomes = sorted([(await read(ada, schedule["id"]))["last_outcome"] for schedule in schedules])
    assert outcomes[1] == "submitted"
    assert outcomes[0].startswith(
        "not submitted: the job may cost 0.500000 USD, and 0.000000 USD are left of the quota"
    )
    assert len(world.acme.jobs) == 1


async def test_a_lost_answer_is_asked_for_again(world: World) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada)
    tick = datetime.fromisoformat(schedule["next_tick"])
    world.acme.lose_replies = 1
    replica = Replica(world)

    await replica.tick(tick)
    assert (await read(ada, schedule["id"]))["last_outcome"] == ""

    async def is_known() -> bool:
        await replica.tick(tick + timedelta(minutes=1))
        return bool((await read(ada, schedule["id"]))["last_job"] == "1")

    await until(is_known, seconds=60, what="the job of the tick")
    assert list(world.acme.jobs) == ["1"]


async def test_a_tick_waits_for_no_earlier_job_but_is_left_out(world: World) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada)
    tick, replica = datetime.fromisoformat(schedule["next_tick"]), Replica(world)
    await replica.tick(tick)

    await replica.tick(tick + timedelta(minutes=5))
    shown = await read(ada, schedule["id"])
    assert (list(world.acme.jobs), shown["last_outcome"]) == (
        ["1"],
        "not submitted: the job or run that it submitted last has not ended",
    )

    world.acme.set_state("1", "COMPLETED")
    await replica.tick(tick + timedelta(minutes=10))
    assert list(world.acme.jobs) == ["1", "2"]


@pytest.mark.parametrize(("missed", "jobs"), [("skip", 0), ("last", 1)])
async def test_missed_ticks_are_made_up_for_as_wanted(world: World, missed: str, jobs: int) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada, missed=missed, cron="0 * * * *")
    tick = datetime.fromisoformat(schedule["next_tick"])

    await Replica(world).tick(tick + timedelta(hours=3, minutes=30))

    shown = await read(ada, schedule["id"])
    assert len(world.acme.jobs) == jobs
    assert datetime.fromisoformat(shown["last_tick"]) == tick + timedelta(hours=3)
    assert datetime.fromisoformat(shown["next_tick"]) == tick + timedelta(hours=4)


async def test_a_disabled_owner_submits_nothing(world: World) -> None:
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")
    schedule = await made(ada)
    async with ada.get("/v1/users/me") as answer:
        member = (await answer.json())["id"]
    async with boss.patch(f"/v1/members/{member}", json={"disabled": True}) as answer:
        assert answer.status == 200

    await Replica(world).tick(datetime.fromisoformat(schedule["next_tick"]))

    assert world.acme.submits == []
    assert "may not submit" in (await read(boss, schedule["id"]))["last_outcome"]


async def test_a_workflow_on_a_schedule_is_a_run(world: World) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada, template_id="benchmark-report", params={})
    tick = datetime.fromisoformat(schedule["next_tick"])

    await asyncio.gather(*(Replica(world).tick(tick) for _ in range(2)))

    shown = await read(ada, schedule["id"])
    assert (shown["last_outcome"], shown["last_job"]) == ("submitted", None)
    async with ada.get("/v1/clusters/main/runs") as answer:
        assert [each["run_id"] for each in (await answer.json())["runs"]] == [shown["last_run"]]
    assert len(world.acme.jobs) == 3


async def test_a_workflow_runs_again_once_its_run_has_ended(world: World) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada, template_id="benchmark-report", params={})
    tick, replica = datetime.fromisoformat(schedule["next_tick"]), Replica(world)
    await replica.tick(tick)
    first = (await read(ada, schedule["id"]))["last_run"]

    await replica.tick(tick + timedelta(minutes=5))
    meanwhile = await read(ada, schedule["id"])
    for job_id in list(world.acme.jobs):
        world.acme.set_state(job_id, "COMPLETED")
    await replica.tick(tick + timedelta(minutes=10))
    afterwards = await read(ada, schedule["id"])

    assert (meanwhile["last_run"], meanwhile["last_outcome"]) == (
        first,
        "not submitted: the job or run that it submitted last has not ended",
    )
    assert afterwards["last_outcome"] == "submitted"
    assert afterwards["last_run"] != first
    assert len(world.acme.jobs) == 6


async def test_a_tick_waits_until_it_is_known_whether_the_run_before_has_ended(world: World) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada, template_id="benchmark-report", params={})
    tick, replica = datetime.fromisoformat(schedule["next_tick"]), Replica(world)
    await replica.tick(tick)
    for job_id in list(world.acme.jobs):
        world.acme.set_state(job_id, "COMPLETED")
    world.acme.unreadable_jobs.update(world.acme.jobs)

    await replica.tick(tick + timedelta(minutes=5))
    unknown = await read(ada, schedule["id"])
    world.acme.unreadable_jobs.clear()
    await replica.tick(tick + timedelta(minutes=6))

    assert datetime.fromisoformat(unknown["last_tick"]) == tick
    assert (await read(ada, schedule["id"]))["last_tick"] == (tick + timedelta(minutes=5)).isoformat().replace(
        "+00:00", "Z"
    )
    assert len(world.acme.jobs) == 6


async def test_a_workflow_runs_on_when_its_owner_has_as_many_runs_as_are_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "MAX_WORKFLOWS", 3)
    ada = await world.login("ada@acme.example")
    schedule = await made(ada, template_id="benchmark-report", params={})
    tick, replica = datetime.fromisoformat(schedule["next_tick"]), Replica(world)

    outcomes = []
    for number in range(6):
        await replica.tick(tick + timedelta(minutes=5 * number))
        outcomes.append((await read(ada, schedule["id"]))["last_outcome"])
        for job_id in list(world.acme.jobs):
            world.acme.set_state(job_id, "COMPLETED")

    assert outcomes == ["submitted"] * 6
    async with ada.get("/v1/clusters/main/runs") as answer:
        assert [run["state"] for run in (await answer.json())["runs"]] == ["completed"] * 3


async def test_a_bad_schedule_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = await world.login("ada@acme.example")

    assert "5 minutes apart" in (await made(ada, 400, cron="*/4 * * * *"))["detail"]
    assert "five fields" in (await made(ada, 400, cron=None))["detail"]
    assert "required" in (await made(ada, 400, params={}))["detail"]
    await made(ada, 404, template_id="nothing")
    await made(ada, 404, cluster_id="secret")
    monkeypatch.setattr(schedule_handlers, "MAX_SCHEDULES", 1)
    await made(ada)
    await made(ada, 409)


async def test_others_see_no_schedule_but_admins_do(world: World) -> None:
    ada, bob, boss, chief = [
        await world.login(email)
        for email in ("ada@acme.example", "bob@acme.example", "boss@acme.example", "chief@rival.example")
    ]
    place = f"/v1/schedules/{(await made(ada))['id']}"

    for browser, status, listed in ((ada, 200, 1), (bob, 404, 0), (boss, 200, 1), (chief, 404, 0)):
        async with browser.get(place) as answer:
            assert answer.status == status
        async with browser.get("/v1/schedules") as answer:
            assert (await answer.json())["total"] == listed
    for browser, status in ((bob, 404), (chief, 404), (ada, 204), (ada, 404)):
        async with browser.delete(place) as answer:
            assert answer.status == status
    await Replica(world).tick(now() + timedelta(minutes=6))
    assert world.acme.submits == []


class Reads(MemoryStore):
    """A view of another store that counts the items of schedules that are read through it."""

    def __init__(self, store: MemoryStore) -> None:
        vars(self).update(vars(store))
        self.items = 0

    @override
    async def get(self, table: Table, key: Key) -> Item | None:
        self.items += key.pk == "schedules"
        return await super().get(table, key)

    @override
    async def query(self, table: Table, pk: str, **bounds: Any) -> Page:
        page = await super().query(table, pk, **bounds)
        self.items += len(page.items) if pk == "schedules" else 0
        return page


async def test_a_round_reads_only_what_is_due(world: World) -> None:
    ada = await world.login("ada@acme.example")
    often = await made(ada)
    for number in range(20):
        await made(ada, name=f"yearly-{number}", cron="0 0 1 1 *")
    tick, reads = datetime.fromisoformat(often["next_tick"]), Reads(world.store)
    replica = Replica(world, reads)
    await replica.tick(tick - timedelta(minutes=4))
    at_first, reads.items = reads.items, 0

    await replica.tick(tick - timedelta(seconds=1))
    of_quiet_round = reads.items
    await replica.tick(tick)

    # One that is submitted is read again, for what became of it is noted in the schedule as it is by then.
    assert (at_first, of_quiet_round, reads.items) == (21, 0, 2)
    assert list(world.acme.jobs) == ["1"]


async def test_a_schedule_that_the_release_before_has_made_is_submitted(world: World) -> None:
    ada = await world.login("ada@acme.example")
    first, replica = await made(ada), Replica(world)
    tick = datetime.fromisoformat(first["next_tick"])
    await as_the_release_before_writes_it(world, first["id"])

    await replica.tick(tick)
    after_the_first = len(world.acme.jobs)
    # A replica of the release before makes another while this one looks for what is due.
    second = await made(ada)
    await as_the_release_before_writes_it(world, second["id"])
    await first_tick_at(world, second["id"], tick + timedelta(seconds=5))
    for seconds in range(5, 605, 5):
        await replica.tick(tick + timedelta(seconds=seconds))

    assert after_the_first == 1
    assert (await read(ada, second["id"]))["last_job"] == "2"
    assert len(world.acme.jobs) == 2


async def test_a_deleted_schedule_is_never_due(world: World) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada)
    async with ada.delete(f"/v1/schedules/{schedule['id']}") as answer:
        assert answer.status == 204

    due = [
        key
        for partition in range(INDEX_PARTITIONS)
        for key in await world.store.query_index(TEMPLATES, DUE, str(partition))
    ]

    assert due == []


async def test_the_events_of_a_schedule_have_its_name(world: World) -> None:
    boss = await world.login("boss@acme.example")

    async with sse_reader(boss, "/v1/clusters/main/events/stream") as reader:
        schedule = await made(boss, name="nightly fit")
        async with boss.delete(f"/v1/schedules/{schedule['id']}") as answer:
            assert answer.status == 204
        await until(lambda: any("schedule.deleted" in each.data for each in reader.events), seconds=90, what="its end")

    facts = [Event.model_validate_json(event.data).data for event in reader.events]
    assert [
        (fact.kind, fact.detail) for fact in facts if isinstance(fact, AdminFact) and fact.subject == schedule["id"]
    ] == [
        ("schedule.created", "nightly fit"),
        ("schedule.deleted", "nightly fit"),
    ]


async def test_the_leader_submits_what_is_due(world: World) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada)

    await first_tick_at(world, schedule["id"], now() - timedelta(minutes=1))

    await until(lambda: list(world.acme.jobs) == ["1"], seconds=60, what="the job of the schedule")

    async def is_noted() -> bool:
        return bool((await read(ada, schedule["id"]))["last_job"] == "1")

    await until(is_noted, seconds=90, what="the schedule to name its job")


async def test_a_deleted_cluster_and_tenant_leave_nothing(world: World) -> None:
    ada, chief = await world.login("ada@acme.example"), await world.login("chief@rival.example")
    await made(ada)
    await made(chief)
    for browser in (ada, chief):
        async with browser.post("/v1/templates", json={"definition": OWN}) as answer:
            assert answer.status == 201, await answer.text()
    directory = Directory(world.store, Outbox(world.store, no_message))

    removed = await ScheduleRecords(directory).forget(ClusterRef(tenant="acme", cluster="main"))
    templates = await forget_templates(world.store, "acme")

    assert (removed, templates) == (1, 2)
    assert await forget_templates(world.store, "acme") == 0
    for browser, left in ((ada, 0), (chief, 1)):
        async with browser.get("/v1/schedules") as answer:
            assert (await answer.json())["total"] == left
        async with browser.get("/v1/templates") as answer:
            assert [each["id"] for each in (await answer.json())["templates"]].count("greet") == left
