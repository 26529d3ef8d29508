"""Service accounts of the lab's tenant: members with Slurm users of their own, whom no other test knows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import ClientSession
from clusterra_lab.parts.user import Profile, User
from clusterra_lab.stack.stack import Stack


@asynccontextmanager
async def service_account(lab: Stack, admin: User, name: str) -> AsyncIterator[User]:
    """Make a service account, and let it send requests until the block ends."""
    async with admin.session.post("/v1/service-accounts", json={"name": name}) as answer:
        assert answer.status == 201, await answer.text()
        account = await answer.json()
    async with admin.session.post(f"/v1/service-accounts/{name}/keys", json={"name": "test"}) as answer:
        assert answer.status == 201, await answer.text()
        key = (await answer.json())["token"]
    async with ClientSession(lab.gateway_url, headers={"Authorization": f"Bearer {key}"}) as session:
        yield User(session, Profile(name=account["name"], uid=account["uid"], email=""), lab.cluster.cluster)
