"""Schedules that are paused, resumed, changed and run at once."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import aiohttp
import pytest
from clusterra_contracts.events import AdminFact, Event
from clusterra_contracts.identity import now
from clusterra_gateway.templates import schedule_handlers, scheduled_submits, ticking
from clusterra_gateway.templates.schedule import Schedule
from clusterra_gateway.templates.schedule_records import ScheduleRecords
from clusterra_gateway.templates.table import DUE, TEMPLATES
from clusterra_lab.machine.process import until
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.outbox_item import INDEX_PARTITIONS
from clusterra_runtime.store.store import StoreUnavailable
from gateway_world import World
from sse_reader import sse_reader
from test_schedules import Replica, first_tick_at, made, read

KEY = {"Idempotency-Key": "run-once-please"}
WRITTEN = ScheduleRecords.replace


@pytest.fixture(autouse=True)
def _only_replicas_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticking, "INTERVAL_SECONDS", 3600.0)


async def changed(browser: aiohttp.ClientSession, schedule: dict[str, Any], status: int = 200, **changes: Any) -> Any:
    async with browser.patch(f"/v1/schedules/{schedule['id']}", json=changes) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


async def run(
    browser: aiohttp.ClientSession, schedule: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None
) -> Any:
    async with browser.post(f"/v1/schedules/{schedule['id']}/run", headers=headers or {}) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


async def stored(world: World, schedule: dict[str, Any]) -> dict[str, Any]:
    item = await world.store.get(TEMPLATES, Key("schedules", f"acme#{schedule['id']}"))
    assert item is not None
    return dict(item.attributes)


async def test_a_paused_schedule_submits_nothing(world: World) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada, missed="last")
    tick = datetime.fromisoformat(schedule["next_tick"])

    shown = await changed(ada, schedule, paused=True)
    for minutes in (0, 6, 12):
        await Replica(world).tick(tick + timedelta(minutes=minutes))

    assert (schedule["paused"], shown["paused"], (await read(ada, schedule["id"]))["paused"]) == (False, True, True)
    assert world.acme.submits == []
    assert (await read(ada, schedule["id"]))["last_outcome"] == ""


async def test_the_release_before_submits_no_paused_schedule(world: World) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada)
    assert "paused" not in await stored(world, schedule)

    await changed(ada, schedule, paused=True)

    # It adds what has no partition, and reads these partitions.
    place = (await stored(world, schedule))[DUE.partition]
    assert place
    assert place not in [str(partition) for partition in range(INDEX_PARTITIONS)]
    assert [len(await world.store.query_index(TEMPLATES, DUE, str(each))) for each in range(INDEX_PARTITIONS)] == [0, 0]


async def test_a_resumed_schedule_goes_on_at_its_next_time(world: World) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada, missed="last")
    await changed(ada, schedule, paused=True)
    await first_tick_at(world, schedule["id"], now() - timedelta(hours=3))

    shown, replica = await changed(ada, schedule, paused=False), Replica(world)
    await replica.tick(now())
    missed = len(world.acme.submits)
    following = datetime.fromisoformat(shown["next_tick"])
    await replica.tick(following)

    assert missed == 0
    assert now() < following + timedelta(minutes=1)
    assert list(world.acme.jobs) == ["1"]
    assert "paused" not in await stored(world, schedule)
    assert (await read(ada, schedule["id"]))["last_outcome"] == "submitted"


async def test_another_cron_moves_the_next_time(world: World) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada, confirmed_usd_per_hour=0.5)

    shown = await changed(
        ada, schedule, cron="0 0 29 2 *", name="leap", missed="last", params={"commands": "false"}, inputs=None
    )
    async with ada.patch(f"/v1/schedules/{schedule['id']}", json={"confirmed_usd_per_hour": None}) as answer:
        unconfirmed = await answer.json()

    assert (shown["cron"], shown["name"], shown["missed"]) == ("0 0 29 2 *", "leap", "last")
    assert shown["params"] == {"commands": "false"}
    assert shown["next_tick"][5:10] == "02-29"
    assert (shown["confirmed_usd_per_hour"], unconfirmed["confirmed_usd_per_hour"]) == (0.5, None)
    assert "confirmed_usd_per_hour" not in await stored(world, schedule)
    await Replica(world).tick(datetime.fromisoformat(schedule["next_tick"]))
    assert world.acme.submits == []


async def test_a_bad_change_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada)

    assert "5 minutes apart" in (await changed(ada, schedule, 400, cron="*/4 * * * *"))["detail"]
    assert "five fields" in (await changed(ada, schedule, 400, cron="every day please"))["detail"]
    assert "required" in (await changed(ada, schedule, 400, params={}))["detail"]
    await changed(ada, schedule, 400, template_id="python-venv")
    await changed(ada, schedule, 400, name="")
    monkeypatch.setattr(schedule_handlers, "MAX_BYTES", 256)
    await changed(ada, schedule, 400, params={"commands": "x" * 300})

    assert await read(ada, schedule["id"]) == schedule


async def test_only_the_owner_changes_and_runs_and_admins_pause(world: World) -> None:
    ada, bob, boss, chief = [
        await world.login(email)
        for email in ("ada@acme.example", "bob@acme.example", "boss@acme.example", "chief@rival.example")
    ]
    schedule = await made(ada)

    for other in (bob, chief):
        await changed(other, schedule, 404, paused=True)
        await run(other, schedule, 404)
    await changed(boss, schedule, 403, params={"commands": "false"}, paused=True)
    await run(boss, schedule, 403)
    assert (await changed(boss, schedule, paused=True))["paused"]
    assert not (await changed(boss, schedule, paused=False))["paused"]
    assert world.acme.submits == []


async def test_a_run_with_one_key_makes_one_job(world: World) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada)
    await changed(ada, schedule, paused=True)

    first = await run(ada, schedule, headers=KEY)
    again = await run(ada, schedule, headers=KEY)

    assert first == again
    assert list(world.acme.jobs) == ["1"]
    assert (first["last_job"], first["last_outcome"], first["paused"]) == ("1", "submitted", True)
    assert first["next_tick"] == schedule["next_tick"]
    assert abs(datetime.fromisoformat(first["last_tick"]) - now()) < timedelta(minutes=5)
    assert world.acme.submits[0].user.name == "ada"
    assert "has not ended" in (await run(ada, schedule, 409))["detail"]
    world.acme.set_state("1", "COMPLETED")
    assert (await run(ada, schedule))["last_job"] == "2"


async def without_note(records: ScheduleRecords, done: Schedule, version: int) -> bool:
    """Writes that a submit begins, and loses what became of it."""
    if done.submitting:
        return await WRITTEN(records, done, version)
    raise StoreUnavailable("it is away")


async def test_a_run_whose_note_is_lost_finds_its_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada)

    with monkeypatch.context() as patched:
        patched.setattr(ScheduleRecords, "replace", without_note)
        await run(ada, schedule, 503, headers=KEY)
    shown = await run(ada, schedule, headers=KEY)
    again = await run(ada, schedule, headers=KEY)

    assert (shown["last_job"], again["last_job"], list(world.acme.jobs)) == ("1", "1", ["1"])


async def test_another_run_finds_the_job_whose_note_is_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada)

    with monkeypatch.context() as patched:
        patched.setattr(ScheduleRecords, "replace", without_note)
        await run(ada, schedule, 503, headers=KEY)
    refused = await run(ada, schedule, 409)
    shown = await read(ada, schedule["id"])

    assert "has not ended" in refused["detail"]
    assert (shown["last_job"], list(world.acme.jobs)) == ("1", ["1"])


async def test_runs_at_the_same_time_and_a_tick_make_one_job(world: World) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada)

    async def one() -> int:
        async with ada.post(f"/v1/schedules/{schedule['id']}/run") as answer:
            return answer.status

    tick = Replica(world).tick(datetime.fromisoformat(schedule["next_tick"]))
    *statuses, _ = await asyncio.gather(*(one() for _ in range(5)), tick)

    assert set(statuses) <= {200, 409}
    assert list(world.acme.jobs) == ["1"]
    assert (await read(ada, schedule["id"]))["last_job"] == "1"


async def test_a_run_waits_for_another_that_may_still_be_submitted(world: World) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada, template_id="benchmark-report", params={})

    async def claimed(at: datetime) -> None:
        found = await records.read("acme", schedule["id"])
        assert found is not None
        assert await records.replace(found[0].claimed("another", at), found[1])

    records = Replica(world).records
    await claimed(now())
    await run(ada, schedule, 409)
    of_the_first = dict(world.acme.jobs)
    await claimed(now() - scheduled_submits.GIVEN_UP_AFTER)
    shown = await run(ada, schedule)

    assert (of_the_first, shown["last_outcome"]) == ({}, "submitted")


async def test_what_was_submitted_while_it_was_paused_is_noted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada)
    tick, paused = datetime.fromisoformat(schedule["next_tick"]), asyncio.Event()
    replace = ScheduleRecords.replace

    async def behind_a_pause(records: ScheduleRecords, done: Schedule, version: int) -> bool:
        if not done.submitting and not paused.is_set():
            paused.set()
            await changed(ada, schedule, paused=True)
        return await replace(records, done, version)

    monkeypatch.setattr(ScheduleRecords, "replace", behind_a_pause)
    await Replica(world).tick(tick)

    shown = await read(ada, schedule["id"])
    assert (shown["paused"], shown["last_job"], shown["last_outcome"]) == (True, "1", "submitted")


async def test_a_change_is_an_event_and_no_change_is_none(world: World) -> None:
    boss = await world.login("boss@acme.example")

    async with sse_reader(boss, "/v1/clusters/main/events/stream") as reader:
        schedule = await made(boss)
        await changed(boss, schedule, paused=False, name="nightly", params=schedule["params"])
        await changed(boss, schedule, paused=True)
        async with boss.delete(f"/v1/schedules/{schedule['id']}") as answer:
            assert answer.status == 204
        await until(lambda: any("schedule.deleted" in each.data for each in reader.events), seconds=90, what="its end")

    facts = [Event.model_validate_json(event.data).data for event in reader.events]
    kinds = [fact.kind for fact in facts if isinstance(fact, AdminFact) and fact.subject == schedule["id"]]
    assert kinds == ["schedule.created", "schedule.changed", "schedule.deleted"]
