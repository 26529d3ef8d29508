"""How long the page of a session is reached, and how often it is looked at."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from clusterra_contracts.identity import ClusterRef, now
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.session_records import SessionRecord, SessionRecords
from clusterra_gateway.bus.requests import EdgeRequests, SlurmRequests
from clusterra_gateway.directory.maps.map_records import MappedUsers, MapRecords
from clusterra_gateway.http.requests.errors import NotFound
from clusterra_gateway.identity.access.signed_tokens import SigningKeys
from clusterra_gateway.sessions import lookup as lookup_module
from clusterra_gateway.sessions.entrance import TOKEN, Entrance
from clusterra_gateway.sessions.lookup import SessionLookup
from clusterra_gateway.sessions.page_credentials import PageClaims, Tickets
from clusterra_gateway.sessions.session_jobs import SessionJobs, SessionView
from clusterra_runtime.nats import bus
from clusterra_runtime.store.outbox import Outbox
from gateway_world import World
from joserfc.jwk import KeySet, OctKey

REF = ClusterRef(tenant="acme", cluster="main")
KEYS = SigningKeys(KeySet([OctKey.generate_key(256)]))


MEMBER = "member"


@asynccontextmanager
async def lookup_of(world: World) -> AsyncIterator[tuple[SessionLookup, SessionJobs]]:
    store, client, registry = world.store, world.client, world.registry
    jobs = SessionJobs(SessionRecords(store), SlurmRequests(client), EdgeRequests(client, 5))
    entrance = Entrance(None, KEYS, registry, Tickets(store))
    async with Outbox(store, partial(bus.store, client)) as outbox:
        yield (
            SessionLookup(client, Directory(store, outbox), registry, MappedUsers(MapRecords(store)), jobs, entrance),
            jobs,
        )


def session(member: str = MEMBER) -> SessionRecord:
    _, kid = KEYS.derive(TOKEN, "any")
    names = {"job_id": "42", "member": member, "template_id": "jupyter", "name": "Jupyter", "run_id": "r1"}
    return SessionRecord(**names, kid=kid, created_at=now())


def claims_of(member: str = MEMBER, seconds: int = 60) -> PageClaims:
    end = int(time.time()) + seconds
    return PageClaims(tenant="acme", cluster="main", job_id="42", member=member, sign_in="s1", exp=end)


async def waiting_session(world: World) -> PageClaims:
    """The claims of ada, who has a session whose job waits."""
    ada = await world.login("ada@acme.example")
    async with ada.get("/v1/users/me") as answer:
        person = await answer.json()
    world.acme.add_job("42", state="PENDING", uid=person["uid"])
    await SessionRecords(world.store).create(REF, session(person["id"]))
    return claims_of(person["id"])


def counted(monkeypatch: pytest.MonkeyPatch, jobs: SessionJobs, before: Callable[[], Awaitable[object]]) -> list[str]:
    """The ids of the jobs that are looked at, each after `before`."""
    looked: list[str] = []
    find = jobs.find

    async def counting(*asked: Any) -> SessionView:
        looked.append(asked[3])
        await before()
        return await find(*asked)

    monkeypatch.setattr(jobs, "find", counting)
    return looked


async def test_a_session_that_was_just_looked_at_is_gone_when_the_cookie_has_expired(world: World) -> None:
    claims = await waiting_session(world)
    over = claims.model_copy(update={"exp": int(time.time()) - 1})

    async with lookup_of(world) as (lookup, _):
        found = await lookup.find(claims)
        with pytest.raises(NotFound):
            await lookup.find(over)

    assert found.view.state == "pending"


async def test_many_who_ask_at_once_are_one_look(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = await waiting_session(world)

    async with lookup_of(world) as (lookup, jobs):
        looked = counted(monkeypatch, jobs, partial(asyncio.sleep, 0))
        found = await asyncio.gather(*(lookup.find(claims) for _ in range(200)))

    assert {each.view.state for each in found} == {"pending"}
    assert looked == ["42"]


async def test_a_session_that_is_gone_is_not_looked_for_again_and_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup_module, "WAITING_SECONDS", 3600.0)
    claims = await waiting_session(world)
    world.acme.set_state("42", "COMPLETED")

    async with lookup_of(world) as (lookup, jobs):
        looked = counted(monkeypatch, jobs, partial(asyncio.sleep, 0))
        for _ in range(5):
            with pytest.raises(NotFound):
                await lookup.find(claims)

    assert looked == ["42"]


async def test_a_look_that_began_before_a_right_was_taken_is_not_remembered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = await waiting_session(world)
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def held_up() -> None:
        begun.set()
        await goes_on.wait()

    async with lookup_of(world) as (lookup, jobs):
        looked = counted(monkeypatch, jobs, held_up)
        first = asyncio.create_task(lookup.find(claims))
        await begun.wait()

        lookup.forget("acme")
        goes_on.set()
        await first
        await lookup.find(claims)

    assert looked == ["42"] * 2
