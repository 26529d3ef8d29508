"""People of the tests: their profiles, roles, tokens and cookies, and a second gateway that serves them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from clusterra_gateway.accounts.keyspace import ACCOUNTS, member_key
from clusterra_gateway.accounts.records import member_id
from clusterra_gateway.app import gateway_on
from clusterra_gateway.identity.access.authentication import COOKIE
from clusterra_gateway.settings import Settings
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import until
from clusterra_runtime.store.store import Update
from gateway_world import World, _Service

SUBMISSION = {"script": "#!/bin/sh\n", "job": {"environment": ["PATH=/bin"]}}
TAKEN_SECONDS = 8.0
"""A credential that was taken away is refused within a second on every replica. A busy machine gets more time here, but
less than the 15 s for which a replica trusts a credential when it is not told."""


async def me(browser: aiohttp.ClientSession) -> dict[str, Any]:
    """The profile of this browser's person."""
    async with browser.get("/v1/users/me") as answer:
        assert answer.status == 200, await answer.text()
        profile: dict[str, Any] = await answer.json()
        return profile


async def change(admin: aiohttp.ClientSession, member: str, **fields: Any) -> int:
    """The status of a change of a member."""
    async with admin.patch(f"/v1/members/{member}", json=fields) as answer:
        return answer.status


async def owner(world: World, email: str = "boss@acme.example") -> aiohttp.ClientSession:
    """The browser of an owner of the tenant with this address."""
    browser = await world.login(email)
    key = member_key(member_id(world.issuer.address, f"sub-of-{email}"))
    await world.store.write(Update(ACCOUNTS, key, set={"role": "owner", "admin": True}))
    assert (await me(browser))["role"] == "owner"
    return browser


async def make_token(browser: aiohttp.ClientSession, **fields: Any) -> dict[str, Any]:
    """A new token of this browser's person, as it is shown once."""
    async with browser.post("/v1/users/me/tokens", json={"name": "ci"} | fields) as answer:
        assert answer.status == 201, await answer.text()
        made: dict[str, Any] = await answer.json()
        return made


async def program(browser: aiohttp.ClientSession, **fields: Any) -> dict[str, str]:
    """The header of a new token of this browser's person."""
    return bearer((await make_token(browser, **fields))["token"])


def bearer(token: str) -> dict[str, str]:
    """The header with a token."""
    return {"Authorization": f"Bearer {token}"}


async def status_with(
    session: aiohttp.ClientSession, token: str, path: str = "/v1/users/me", method: str = "GET"
) -> int:
    """The status of a request with a token."""
    async with session.request(method, path, headers=bearer(token)) as answer:
        return answer.status


def cookie_of(browser: aiohttp.ClientSession, name: str = COOKIE) -> str:
    """The value of a cookie, which is there once."""
    (value,) = [each.value for each in browser.cookie_jar if each.key == name]
    return value


@asynccontextmanager
async def replica(world: World) -> AsyncIterator[str]:
    """A second gateway on the same record and bus."""
    port = free_port()
    settings: Settings = world.settings.model_copy(update={"http_port": port})
    service = _Service(settings)
    async with gateway_on(world.store, service, settings):
        try:
            await until(lambda: not service.failing(), seconds=90, what="the second gateway to be ready")
            yield f"http://127.0.0.1:{port}"
        finally:
            await service.stop()
