"""A person's interactive sessions, as a client of the API and a browser use them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientSession
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from yarl import URL

READY_SECONDS = 150


def place(user: User, job_id: str = "", action: str = "") -> str:
    """The path of a person's sessions, of one of them, or of what can be done with it."""
    return "/".join(filter(None, (f"/v1/clusters/{user.cluster}/sessions", job_id, action)))


async def asked(user: User, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
    """Send a request that must be answered with this status. Returns the JSON of the answer."""
    async with user.session.request(method, path, json=body) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json() if answer.status != 204 else None


@asynccontextmanager
async def published(admin: User, definition: str) -> AsyncIterator[str]:
    """Publish a template in an admin's workspace, and delete it after the block. Returns its id."""
    created = await asked(admin, "POST", "/v1/templates", {"definition": definition}, status=201)
    template = f"/v1/templates/{created['id']}"
    try:
        await asked(admin, "POST", f"{template}/versions/1/review", {"approve": True})
        await asked(admin, "POST", f"{template}/versions/1/publish")
        yield created["id"]
    finally:
        await asked(admin, "DELETE", template, status=204)


async def state(user: User, job_id: str) -> dict[str, Any]:
    """A session as the API shows it."""
    found: dict[str, Any] = await asked(user, "GET", place(user, job_id))
    return found


async def entered(user: User, browser: ClientSession, job_id: str) -> str:
    """Open a session in a browser by a ticket. Returns the address of its page."""
    ticket = await asked(user, "POST", place(user, job_id, "ticket"), status=201)
    form = {"ticket": ticket["ticket"]}
    async with browser.post(ticket["url"], data=form, allow_redirects=False) as answer:
        assert answer.status == 303, await answer.text()
        return str(answer.url.join(URL(answer.headers["Location"])))


async def until_ready(user: User, job_id: str) -> None:
    """Wait until the page of a session can be opened. Fails when its job ends before."""

    async def is_ready() -> bool:
        now = await state(user, job_id)
        assert now["state"] != "ended", await user.output(job_id)
        return bool(now["state"] == "ready")

    await until(is_ready, seconds=READY_SECONDS, what="the session", every=0.3)
