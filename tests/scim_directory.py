"""A directory that provisions people of the lab's tenant by SCIM."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession
from clusterra_contracts.identity import now
from clusterra_gateway.accounts.keyspace import ACCOUNTS, member_key
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.store import Update

ADA = "ada@acme.example"
POSIX_USER = "urn:ietf:params:scim:schemas:extension:clusterra:2.0:User"
POSIX_GROUP = "urn:ietf:params:scim:schemas:extension:clusterra:2.0:Group"
ACCOUNT = "/v1/service-accounts/directory"


async def set_role(lab: Stack, user: User, role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes a person's role to the record, as if an owner had given it: the lab has none."""
    async with user.session.get("/v1/users/me") as answer:
        me = (await answer.json())["id"]
    for name, value in lab.aws.environment().items():
        monkeypatch.setenv(name, value)
    async with DynamoDBStore(table_prefix="clusterra-") as store:
        given_at = now().isoformat() if role == "owner" else None
        await store.write(
            Update(ACCOUNTS, member_key(me), set={"role": role, "admin": True, "role_given_at": given_at})
        )


@asynccontextmanager
async def directory_of(lab: Stack, ada: User, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ClientSession]:
    """The directory, with a key that Ada makes as an owner. She is one until the block ends."""
    await set_role(lab, ada, "owner", monkeypatch)
    async with lab.user(ADA) as owner:
        account = {"name": "directory", "role": "admin", "scopes": ["scim"]}
        async with owner.session.post("/v1/service-accounts", json=account) as answer:
            assert answer.status == 201, await answer.text()
        async with owner.session.post(f"{ACCOUNT}/keys", json={"name": "scim"}) as answer:
            assert answer.status == 201, await answer.text()
            headers = {"Authorization": f"Bearer {(await answer.json())['token']}"}
        async with ClientSession(lab.gateway_url, headers=headers) as session:
            yield session
        async with owner.session.delete(ACCOUNT) as answer:
            assert answer.status == 204
    await set_role(lab, ada, "admin", monkeypatch)


async def made(directory: ClientSession, path: str, content: Mapping[str, object]) -> str:
    """The id of a new user or group."""
    async with directory.post(f"/v1/tenants/acme/scim/v2/{path}", json=content) as answer:
        assert answer.status == 201, await answer.text()
        return str((await answer.json(content_type=None))["id"])
