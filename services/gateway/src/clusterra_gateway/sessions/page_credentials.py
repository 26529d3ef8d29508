"""What lets a browser see a session: a one-time ticket from the API's origin, and then the cookie of one page."""

import secrets
import time
from datetime import datetime, timedelta

from aiohttp import web
from clusterra_contracts.identity import Id, JobId, Moment, now
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.store import ConditionFailed, Delete, Put, Store

from clusterra_gateway.accounts.keyspace import ACCOUNTS, session_ticket_key
from clusterra_gateway.accounts.records import Record, expiry
from clusterra_gateway.http.requests.errors import Unauthenticated
from clusterra_gateway.identity.access.authentication import COOKIE, HOST_COOKIE
from clusterra_gateway.identity.access.cookies import HOST_LOGIN_COOKIE, LOGIN_COOKIE
from clusterra_gateway.identity.access.credentials import secret_hash
from clusterra_gateway.identity.access.signed_tokens import SigningKeys

VALID_SECONDS = 60


class PageView(Record):
    """Whose browser may see which session, and the credential that this follows from."""

    tenant: Id
    cluster: Id
    job_id: JobId
    member: str
    sign_in: str
    """The id of the credential that asked for it: when it is taken, what the ticket led to ends."""
    by_token: bool = False
    """Whether that is an API token, and not a browser's sign-in."""


class Ticket(PageView):
    """What a ticket stands for. Only its hash is stored."""

    until: Moment
    """When that credential ends."""
    valid_until: Moment


class Tickets:
    """The tickets of all sessions. Methods raise StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def make(self, ticket: Ticket) -> str:
        """A new ticket. It is kept nowhere."""
        made = secrets.token_urlsafe(32)
        key = session_ticket_key(secret_hash(made))
        await self._store.write(Put(ACCOUNTS, key, ticket.attributes(), Absent(), expiry(ticket.valid_until) + 60))
        return made

    async def redeem(self, ticket: str) -> Ticket | None:
        """Redeems a ticket, once. Returns None for one that is wrong, expired, or was redeemed before."""
        item = await self._store.get(ACCOUNTS, session_ticket_key(secret_hash(ticket)))
        if item is None:
            return None
        try:
            await self._store.delete(Delete(ACCOUNTS, item.key, VersionIs(item.version)))
        except ConditionFailed:
            return None
        found = Ticket.of(item)
        return found if found.valid_until > now() else None


def valid_until() -> datetime:
    """The end of a ticket that is made now."""
    return now() + timedelta(seconds=VALID_SECONDS)


AUDIENCE = "clusterra-session-page"
PREFIX = "clusterra_page_"
HOST_PREFIX = f"__Host-{PREFIX}"
"""Over HTTPS: browsers take such a cookie from its own host only, so no other host of the domain can plant one."""
PAGE_SECONDS = 12 * 3600
"""After this time a browser needs a new ticket."""


class PageClaims(PageView):
    """What the cookie of a page says."""

    exp: int


class PageCookies:
    """Sets and reads the cookies of pages."""

    def __init__(self, keys: SigningKeys, *, secure: bool) -> None:
        self._keys = keys
        self._secure = secure

    def set(self, response: web.StreamResponse, ticket: Ticket) -> None:
        """Let the browser that has redeemed this ticket see the session."""
        ends = min(int(time.time()) + PAGE_SECONDS, int(ticket.until.timestamp()))
        claims = PageClaims(**ticket.model_dump(include=set(PageView.model_fields)), exp=ends)
        seconds = max(ends - int(time.time()), 0)
        response.set_cookie(
            self._name(ticket.cluster, ticket.job_id),
            self._keys.sign(AUDIENCE, claims, seconds=seconds),
            path="/",
            max_age=seconds,
            httponly=True,
            samesite="Lax",
            secure=self._secure,
        )

    def claims(self, request: web.Request, cluster: str, job_id: str) -> PageClaims | None:
        """What the browser may see here; None for nothing."""
        cookie = request.cookies.get(self._name(cluster, job_id))
        if cookie is None:
            return None
        try:
            claims = self._keys.verify(AUDIENCE, cookie, PageClaims)
        except Unauthenticated:
            return None
        return claims if (claims.cluster, claims.job_id) == (cluster, job_id) else None

    def _name(self, cluster: str, job_id: str) -> str:
        return f"{HOST_PREFIX if self._secure else PREFIX}{cluster}_{job_id}"


def is_ours(name: str) -> bool:
    """Whether a cookie is the gateway's, so that no session may see or set it."""
    return name in (COOKIE, HOST_COOKIE, LOGIN_COOKIE, HOST_LOGIN_COOKIE) or name.startswith((PREFIX, HOST_PREFIX))
