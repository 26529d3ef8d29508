"""The export of events as JSON lines: all that the caller may see, and a body that is cut off is no whole one."""

import json
from contextlib import suppress
from typing import Any

import aiohttp
from aiohttp import ClientPayloadError
from clusterra_contracts.events import Event, JobFact, NodeFact, event_of
from clusterra_contracts.identity import ClusterRef, now
from gateway_world import World

REF = ClusterRef(tenant="acme", cluster="main")
EXPORT = "/v1/clusters/main/events/export"


def told(number: int, uid: int | None = None) -> Event:
    """An event about a job of a user, or about a node."""
    if uid is None:
        return event_of("proxy", REF, NodeFact(kind="node.down", node=f"n{number}"), version="1", time=now())
    fact = JobFact(
        kind="job.running",
        job_id=str(number),
        name="x",
        user="ada",
        uid=uid,
        partition="main",
        state="RUNNING",
        submitted_at=now(),
    )
    return event_of("proxy", REF, fact, version="1", time=now())


async def lines(browser: aiohttp.ClientSession, path: str = EXPORT, **asked: str) -> list[dict[str, Any]]:
    async with browser.get(path, params=asked) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.content_type == "application/x-ndjson"
        return [json.loads(line) for line in (await answer.text()).splitlines()]


async def test_an_export_has_every_event_and_ends_with_their_number(world: World) -> None:
    boss = await world.login("boss@acme.example")
    world.acme.events.archived.extend(told(number) for number in range(1, 1201))

    for path in (EXPORT, "/v1/events/export"):
        found = await lines(boss, path, kind="node.*", since="2026-01-01T00:00:00Z")

        assert [each["subject"] for each in found if "export" not in each] == [f"n{n}" for n in range(1, 1201)]
        marks = [each["export"] for each in found if "export" in each]
        assert [(mark["events"], mark["cursor"] is None) for mark in marks] == [
            (500, False),
            (1000, False),
            (1200, True),
        ]
        assert "export" in found[-1]
    asked = world.acme.events.histories[0]
    assert (asked.kinds, asked.after is not None, asked.before) == (("node.*",), True, None)
    assert world.acme.events.tenant_histories[0].clusters == ("main",)


async def test_an_export_goes_on_with_the_cursor_of_its_last_mark(world: World) -> None:
    boss = await world.login("boss@acme.example")
    world.acme.events.archived.extend(told(number) for number in range(1, 1201))
    world.acme.events.history_fails_after = 2

    async with boss.get(EXPORT) as answer:
        text = b""
        with suppress(ClientPayloadError):
            while chunk := await answer.content.readany():
                text += chunk
            raise AssertionError("it ended as if it were whole")
    first = [json.loads(line) for line in text.splitlines()]
    world.acme.events.history_fails_after = None
    rest = await lines(boss, cursor=first[-1]["export"]["cursor"])

    subjects = [each["subject"] for each in (*first, *rest) if "export" not in each]
    assert subjects == [f"n{n}" for n in range(1, 1201)]
    assert all(each["export"]["cursor"] is not None for each in first if "export" in each)


async def test_members_export_what_they_see_and_no_workspace(world: World) -> None:
    ada = await world.login("ada@acme.example")
    async with ada.get("/v1/users/me") as answer:
        uid = (await answer.json())["uid"]
    world.acme.events.archived.extend([told(1, uid + 1), told(2), told(3, uid)])

    found = await lines(ada)

    assert [each["subject"] for each in found if "export" not in each] == ["3"]
    assert found[-1]["export"]["events"] == 1
    for path in ("/v1/events", "/v1/events/export", "/v1/events/stream"):
        async with ada.get(path) as answer:
            assert answer.status == 403


async def test_an_export_that_cannot_begin_has_a_status(world: World) -> None:
    boss = await world.login("boss@acme.example")
    world.acme.events.history_fails_after = 0

    async with boss.get(EXPORT) as answer:
        assert answer.status == 503
