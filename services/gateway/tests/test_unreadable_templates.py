"""Records of templates and schedules that cannot be read: each is one bad record, for its tenant and for others."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from clusterra_gateway.accounts.keyspace import ACCOUNTS, member_key
from clusterra_gateway.templates import ticking
from clusterra_gateway.templates.records import forget_templates
from clusterra_gateway.templates.table import TEMPLATES
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.store import Delete, Put, Update
from gateway_world import World
from template_definition import OWN
from test_schedules import Replica, made, read
from test_templates import called


@pytest.fixture(autouse=True)
def _only_replicas_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticking, "INTERVAL_SECONDS", 3600.0)


@pytest.mark.parametrize("changes", [{"missed": "all"}, {"cron": "0 0 2 * * MON#7"}])
async def test_a_schedule_that_cannot_be_read_stops_no_other(world: World, changes: dict[str, Any]) -> None:
    ada, chief = await world.login("ada@acme.example"), await world.login("chief@rival.example")
    bad, good = await made(ada), await made(chief)
    await world.store.write(Update(TEMPLATES, Key("schedules", f"acme#{bad['id']}"), set=changes))

    await Replica(world).tick(datetime.fromisoformat(good["next_tick"]) + timedelta(seconds=1))

    assert (await read(chief, good["id"]))["last_outcome"] == "submitted"
    assert (await called(ada, "GET", "/v1/schedules", status=200))["total"] == 0


async def test_an_owner_who_cannot_be_read_stops_no_other_schedule(world: World) -> None:
    ada, chief = await world.login("ada@acme.example"), await world.login("chief@rival.example")
    member = (await called(ada, "GET", "/v1/users/me", status=200))["id"]
    await made(ada)
    good = await made(chief)
    await world.store.write(Update(ACCOUNTS, member_key(member), set={"kind": "robot"}))

    await Replica(world).tick(datetime.fromisoformat(good["next_tick"]) + timedelta(seconds=1))

    assert (await read(chief, good["id"]))["last_outcome"] == "submitted"


async def test_a_schedule_of_a_deleted_template_says_so_at_each_tick(world: World) -> None:
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")
    await called(ada, "POST", "/v1/templates", {"definition": OWN}, status=201)
    await called(boss, "POST", "/v1/templates/greet/versions/1/review", {"approve": True}, status=200)
    await called(boss, "POST", "/v1/templates/greet/versions/1/publish", status=200)
    schedule = await made(ada, template_id="greet", params={})
    await called(ada, "DELETE", "/v1/templates/greet", status=204)
    tick, replica = datetime.fromisoformat(schedule["next_tick"]), Replica(world)

    await replica.tick(tick)
    await replica.tick(tick + timedelta(minutes=5))

    shown = await read(ada, schedule["id"])
    assert shown["last_outcome"].startswith("not submitted: there is no such template")
    assert datetime.fromisoformat(shown["next_tick"]) == tick + timedelta(minutes=10)


@pytest.mark.parametrize(
    ("key", "bad"),
    [
        (Key("tenant#acme", "template#aaa"), {"template_id": "aaa", "owner": {"team": "x"}}),
        (Key("template#acme#greet", "version#000001"), {"compressed": "x"}),
    ],
)
async def test_a_template_that_cannot_be_read_hides_no_other(world: World, key: Key, bad: dict[str, Any]) -> None:
    ada = await world.login("ada@acme.example")
    await called(ada, "POST", "/v1/templates", {"definition": OWN}, status=201)
    await called(ada, "POST", "/v1/templates", {"definition": OWN.replace("id: greet", "id: meet")}, status=201)
    await world.store.delete(Delete(TEMPLATES, key))
    await world.store.write(Put(TEMPLATES, key, bad, Absent()))

    listed = await called(ada, "GET", "/v1/templates", status=200)
    await called(ada, "POST", "/v1/templates", {"definition": OWN.replace("id: greet", "id: heed")}, status=201)

    assert "meet" in {each["id"] for each in listed["templates"]}
    assert await forget_templates(world.store, "acme") > 0
    assert await forget_templates(world.store, "acme") == 0
