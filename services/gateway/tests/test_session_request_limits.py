"""The sessions' origin for many at once: whoever's session never answers leaves connections to others."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from clusterra_contracts.identity import now
from clusterra_contracts.rpc.edge_streams import SessionReady
from clusterra_gateway.accounts.session_records import SessionRecord
from clusterra_gateway.identity.access.signed_tokens import SigningKeys
from clusterra_gateway.sessions.connector import MAX_CONNECTIONS
from clusterra_gateway.sessions.lookup import FoundSession
from clusterra_gateway.sessions.page_credentials import PageClaims, PageCookies, Ticket
from clusterra_gateway.sessions.pages import MAX_OF_PERSON, Pages, serving_pages
from clusterra_gateway.sessions.session_jobs import SessionView
from clusterra_lab.machine.process import until
from joserfc.jwk import KeySet, OctKey

COOKIES = PageCookies(SigningKeys(KeySet([OctKey.generate_key(256)])), secure=False)
SESSIONS = 25


class Answering:
    """A stream to a session's server that answers one request."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._answers = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", b""]

    async def write(self, _data: bytes) -> None:
        self._asked.set()

    async def read(self) -> bytes:
        await self._asked.wait()
        return self._answers.pop(0)

    async def cancel(self) -> None:
        """Ends nothing."""


class Edges:
    """In place of `SessionLookup`: each session is ready. The edge of `acme` opens no stream and is silent."""

    def __init__(self) -> None:
        self.waiting = 0

    async def find(self, claims: PageClaims) -> FoundSession:
        names = {"template_id": "jupyter", "name": "Jupyter", "run_id": "r1", "kid": "k1"}
        record = SessionRecord(job_id=claims.job_id, member=claims.member, created_at=now(), **names)
        view = SessionView(record, "ready", ready=SessionReady(strip_prefix=False, streams=0, idle_seconds=0.0))
        return FoundSession(view, "0" * 64, f"j{claims.job_id}.main.{claims.tenant}.session")

    async def open(self, host: str) -> Any:
        if ".acme." in host:
            self.waiting += 1
            await asyncio.Event().wait()
        return Answering()


@pytest.fixture
async def origin(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[str, Edges]]:
    monkeypatch.setattr("clusterra_gateway.sessions.pages.SHUTDOWN_SECONDS", 0.1)
    # A busy machine needs longer for so many connections, and each of them waits for the last one here.
    monkeypatch.setattr("clusterra_gateway.sessions.pages._TIMEOUT", aiohttp.ClientTimeout(total=None, connect=90.0))
    edges: Any = Edges()
    pages = Pages(edges, None, COOKIES, "http://127.0.0.1", frozenset())  # type: ignore[arg-type]
    async with serving_pages(pages, "127.0.0.1", 0) as port:
        yield f"http://127.0.0.1:{port}", edges


def cookie(member: str, tenant: str, job_id: str) -> dict[str, str]:
    until_ = {"until": now() + timedelta(hours=1), "valid_until": now() + timedelta(seconds=60)}
    ticket = Ticket(tenant=tenant, cluster="main", job_id=job_id, member=member, sign_in="s1", **until_)
    response = web.Response()
    COOKIES.set(response, ticket)
    morsel = next(iter(response.cookies.values()))
    return {"Cookie": f"{morsel.key}={morsel.value}"}


async def asked(browser: aiohttp.ClientSession, url: str, member: str, tenant: str, job_id: str) -> int:
    async with browser.get(f"{url}/sessions/main/{job_id}/", headers=cookie(member, tenant, job_id)) as answer:
        await answer.read()
        return answer.status


@pytest.mark.parametrize("people", [1, 25])
async def test_one_tenant_takes_no_connection_from_another(origin: tuple[str, Edges], people: int) -> None:
    url, edges = origin
    most = min(people * MAX_OF_PERSON, MAX_CONNECTIONS * 3 // 4)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=90)) as browser:
        flood = [
            asyncio.create_task(asked(browser, url, f"m{number % people}", "acme", str(1 + number % SESSIONS)))
            for number in range(MAX_CONNECTIONS)
        ]
        await until(
            lambda: edges.waiting + sum(each.done() for each in flood) >= MAX_CONNECTIONS, seconds=90, what="a flood"
        )

        other = await asked(browser, url, "x1", "rival", "7")

        refused = [each.result() for each in flood if each.done()]
        for each in flood:
            each.cancel()
        await asyncio.gather(*flood, return_exceptions=True)
    assert other == 200
    assert (edges.waiting, set(refused)) == (most, {429})
