"""A directory that provisions people: a program with the key of a service account, and what it says in the tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from gateway_world import World

SCIM_JSON = "application/scim+json"
USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
POSIX_USER = "urn:ietf:params:scim:schemas:extension:clusterra:2.0:User"
POSIX_GROUP = "urn:ietf:params:scim:schemas:extension:clusterra:2.0:Group"
ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
LIST = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
ERROR = "urn:ietf:params:scim:api:messages:2.0:Error"

type Json = dict[str, Any]


class Directory:
    """A provisioning client of one tenant."""

    def __init__(self, session: aiohttp.ClientSession, tenant: str) -> None:
        self.session = session
        self.base = f"/v1/tenants/{tenant}/scim/v2"

    async def ask(self, method: str, path: str, content: Any = None, **headers: str) -> tuple[int, Json]:
        """The status and the body of an answer, which is SCIM's unless it is empty."""
        sent = {"Content-Type": SCIM_JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
        async with self.session.request(method, f"{self.base}{path}", json=content, headers=sent) as answer:
            if answer.status == 204:
                return answer.status, {}
            assert answer.content_type == SCIM_JSON, await answer.text()
            told: Json = await answer.json(content_type=SCIM_JSON)
            return answer.status, told

    async def made(self, path: str, content: Json) -> Json:
        """What a POST has made."""
        status, told = await self.ask("POST", path, content)
        assert status == 201, told
        return told

    async def patched(self, path: str, *operations: Json) -> Json:
        """The resource after a PATCH."""
        status, told = await self.ask("PATCH", path, {"schemas": [PATCH], "Operations": list(operations)})
        assert status == 200, told
        return told

    async def found(self, folder: str, text: str) -> list[Json]:
        """The resources that a filter finds."""
        status, told = await self.ask("GET", f"{folder}?filter={text}")
        assert status == 200, told
        assert told["totalResults"] == len(told.get("Resources", []))
        resources: list[Json] = told.get("Resources", [])
        return resources


def person(address: str, **more: Any) -> Json:
    """A user as directories send them."""
    given, _, _ = address.partition("@")
    return {
        "schemas": [USER],
        "userName": address,
        "name": {"givenName": given.title(), "familyName": "Example"},
        "emails": [{"primary": True, "value": address, "type": "work"}],
        "active": True,
    } | more


async def scim_key(chief: aiohttp.ClientSession, name: str = "okta") -> str:
    """The key of a new service account that provisions people, made by an owner."""
    account = {"name": name, "role": "admin", "scopes": ["scim"]}
    async with chief.post("/v1/service-accounts", json=account) as answer:
        assert answer.status == 201, await answer.text()
    async with chief.post(f"/v1/service-accounts/{name}/keys", json={"name": "directory"}) as answer:
        assert answer.status == 201, await answer.text()
        return str((await answer.json())["token"])


@asynccontextmanager
async def directory_of(world: World, chief: aiohttp.ClientSession, tenant: str = "acme") -> AsyncIterator[Directory]:
    """The directory of a tenant."""
    headers = {"Authorization": f"Bearer {await scim_key(chief)}", "Accept": SCIM_JSON}
    async with aiohttp.ClientSession(world.url, headers=headers) as session:
        yield Directory(session, tenant)
