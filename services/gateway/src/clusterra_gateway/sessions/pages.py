"""The server of the sessions' origin: it serves user content, so nothing of the API is there."""

import asyncio
import html
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus
from typing import Any

import aiohttp
import structlog
from aiohttp import web
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.store import StoreError

from clusterra_gateway.http.answers.responses import NO_STORE
from clusterra_gateway.http.requests.errors import Forbidden, RequestError
from clusterra_gateway.http.requests.parameters import read_form
from clusterra_gateway.identity.access.cross_site import reject_cross_site
from clusterra_gateway.identity.access.limits import OpenStreams, Places
from clusterra_gateway.sessions.connector import MAX_CONNECTIONS, StreamConnector
from clusterra_gateway.sessions.entrance import ENTRY, ROOT, page_path
from clusterra_gateway.sessions.forwarding import forward, target_of
from clusterra_gateway.sessions.lookup import READY_SECONDS, FoundSession, SessionLookup
from clusterra_gateway.sessions.page_credentials import PageClaims, PageCookies, Tickets
from clusterra_gateway.sessions.web_sockets import carry_web_socket, opens_web_socket

log = structlog.get_logger()

MAX_OF_PERSON = 100
"""A browser has some six to an origin; over HTTP/2 it may ask for a hundred at once."""
_PATH = f"{ROOT}/{{cluster_id:[a-z0-9][a-z0-9-]{{0,38}}}}/{{job_id:[1-9][0-9]{{0,9}}}}"
_ERRORS = frozenset(each for each in HTTPStatus if each.is_client_error or each.is_server_error)
RETRY_SECONDS = 3
SHUTDOWN_SECONDS = 5.0
_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=15.0, sock_read=None)
"""A notebook's answer may take as long as its kernel."""
_PAGE_HEADERS = {
    **NO_STORE,
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Pages:
    """The handler of all paths of the sessions' origin."""

    def __init__(
        self, lookup: SessionLookup, tickets: Tickets, cookies: PageCookies, origin: str, entered_from: frozenset[str]
    ) -> None:
        """`origin` is that of the pages. A ticket may come from pages of the origins `entered_from` only."""
        self._lookup = lookup
        self._entered_from = entered_from
        self._tickets = tickets
        self._cookies = cookies
        self._origin = origin
        self._http: aiohttp.ClientSession | None = None
        self._streams = OpenStreams()
        self._places = Places(MAX_CONNECTIONS)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Serve sessions until the block ends."""
        connector = StreamConnector(self._lookup.open)
        self._http = aiohttp.ClientSession(
            connector=connector, timeout=_TIMEOUT, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
        )
        try:
            yield
        finally:
            await connector.end()
            await self._http.close()

    def recheck(self, tenant: str) -> None:
        """Look again at the sessions of a tenant, also at those with an open WebSocket: somebody may see less now."""
        self._lookup.forget(tenant)
        self._streams.recheck(tenant)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Pass a request of the session's owner on. For everybody else there is nothing here."""
        cluster, job_id = request.match_info["cluster_id"], request.match_info["job_id"]
        claims = self._cookies.claims(request, cluster, job_id)
        if claims is None:
            return _nothing()
        try:
            reject_cross_site(request.method, request.headers, {self._origin})
            reached = await self._lookup.find(claims)
        except Forbidden as error:
            return _page(HTTPStatus.FORBIDDEN, "Refused", error.detail)
        except RequestError:
            return _nothing()
        except (RpcFailed, StoreError) as error:
            log.warning("session_not_looked_up", job=job_id, reason=str(error))
            return _page(HTTPStatus.BAD_GATEWAY, "One moment", "The cluster does not answer.", again=True)
        if reached.view.state != "ready":
            return _page(HTTPStatus.SERVICE_UNAVAILABLE, "The session is starting", reached.view.detail, again=True)
        return await self._passed_on(request, claims, reached)

    async def enter(self, request: web.Request) -> web.StreamResponse:
        """Give the browser its cookie for a ticket, and lead it to the page.

        Only a page of ours may post a ticket. Otherwise somebody could lead another person's browser into a session of
        their own, and its scripts would be on the origin of that person's sessions.
        """
        origin = request.headers.get("Origin")
        if origin not in self._entered_from and (origin is not None or "Sec-Fetch-Site" in request.headers):
            return _page(HTTPStatus.FORBIDDEN, "Refused", "A session is entered from the page of the workspace.")
        try:
            ticket = await self._tickets.redeem((await read_form(request)).fields.get("ticket", ""))
        except RequestError as error:
            return _page(HTTPStatus.BAD_REQUEST, "Refused", error.detail)
        except StoreError as error:
            log.warning("ticket_not_redeemed", reason=str(error))
            return _page(HTTPStatus.BAD_GATEWAY, "One moment", "The tickets cannot be read now: try again.")
        if ticket is None:
            return _nothing()
        location = f"{page_path(ticket.cluster, ticket.job_id)}/"
        response = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": location, **_PAGE_HEADERS})
        self._cookies.set(response, ticket)
        return response

    async def _passed_on(self, request: web.Request, claims: PageClaims, reached: FoundSession) -> web.StreamResponse:
        assert self._http is not None  # noqa: S101 - `connected` has made it
        url = target_of(request, reached, page_path(claims.cluster, claims.job_id))
        try:
            with self._places.taken(claims.tenant, claims.member, most=MAX_OF_PERSON):
                if opens_web_socket(request):
                    with self._streams.opened(claims.tenant, claims.member):
                        carried = carry_web_socket(request, self._http, url, reached.server_token)
                        return await self._while_allowed(claims, carried)
                return await forward(request, self._http, url, reached.server_token)
        except aiohttp.WSServerHandshakeError as error:
            return _page(refusal(error.status), "Refused", "The session refused the connection.")
        except RequestError as error:
            return _page(HTTPStatus.TOO_MANY_REQUESTS, "Too many connections", error.detail)
        except (aiohttp.ClientError, TimeoutError) as error:
            log.info("session_not_reached", job=claims.job_id, reason=type(error).__name__)
            return _page(HTTPStatus.BAD_GATEWAY, "One moment", "The session does not answer.", again=True)

    async def _while_allowed(
        self, claims: PageClaims, carried: Coroutine[Any, Any, web.StreamResponse]
    ) -> web.StreamResponse:
        """Carry a WebSocket for as long as its browser may see the session."""
        carrying, watching = asyncio.create_task(carried), asyncio.create_task(self._until_gone(claims))
        try:
            await asyncio.wait((carrying, watching), return_when=asyncio.FIRST_COMPLETED)
        finally:
            watching.cancel()
            carrying.cancel()
            # Cancelled, it closes both sockets.
            await asyncio.wait((carrying, watching))
        return web.Response() if carrying.cancelled() else carrying.result()

    async def _until_gone(self, claims: PageClaims) -> None:
        permission = self._streams.permission(claims.tenant, partial(self._allowed, claims))
        while await permission.holds():
            with suppress(TimeoutError):
                await asyncio.wait_for(permission.changed.wait(), READY_SECONDS)

    async def _allowed(self, claims: PageClaims) -> bool:
        try:
            await self._lookup.find(claims)
        except (RpcFailed, StoreError):
            return True  # It was allowed at the last look, and the next one is due soon.
        except RequestError:
            return False
        return True


@asynccontextmanager
async def serving_pages(pages: Pages, host: str, port: int) -> AsyncIterator[int]:
    """Listen until the block ends, and yield the port."""
    app = web.Application()
    app.router.add_post(ENTRY, pages.enter)
    for path in (_PATH, f"{_PATH}/{{rest:.*}}"):
        app.router.add_route("*", path, pages.serve)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS, auto_decompress=False)
    async with pages.connected():
        await runner.setup()
        try:
            site = web.TCPSite(runner, host, port)
            await site.start()
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()


def refusal(status: int) -> HTTPStatus:
    """The status for a browser whose WebSocket a session refused by this one: an error, whatever the session said."""
    if status in _ERRORS:
        return HTTPStatus(status)
    return HTTPStatus.BAD_GATEWAY


def _nothing() -> web.Response:
    return _page(HTTPStatus.NOT_FOUND, "Not found", "There is no such session, or it is not yours, or it has ended.")


def _page(status: HTTPStatus, title: str, text: str, *, again: bool = False) -> web.Response:
    """A page of ours. With `again`, browsers load it again soon."""
    refresh = f'<meta http-equiv="refresh" content="{RETRY_SECONDS}">' if again else ""
    body = f"<!doctype html><title>{title}</title>{refresh}<h1>{title}</h1><p>{html.escape(text)}</p>"
    headers = {**_PAGE_HEADERS, **({"Retry-After": str(RETRY_SECONDS)} if again else {})}
    return web.Response(status=status, text=body, content_type="text/html", headers=headers)
