"""The cookie of one session's page. It is valid for this session alone, and for nothing of the API."""

import time

from aiohttp import web
from clusterra_contracts.identity import Id, JobId
from pydantic import BaseModel, ConfigDict

from clusterra_gateway.http.requests.errors import Unauthenticated
from clusterra_gateway.identity.access.authentication import COOKIE, HOST_COOKIE
from clusterra_gateway.identity.access.cookies import LOGIN_COOKIE
from clusterra_gateway.identity.access.signed_tokens import SigningKeys
from clusterra_gateway.sessions.tickets import Ticket

AUDIENCE = "clusterra-session-page"
PREFIX = "clusterra_page_"
HOST_PREFIX = f"__Host-{PREFIX}"
"""Over HTTPS: browsers take such a cookie from its own host only, so no other host of the domain can plant one."""
PAGE_SECONDS = 12 * 3600
"""After this time a browser needs a new ticket."""


class PageClaims(BaseModel):
    """Whose browser may see which session."""

    model_config = ConfigDict(frozen=True)

    tenant: Id
    cluster: Id
    job_id: JobId
    member: str
    sign_in: str
    by_token: bool = False
    exp: int


class PageCookies:
    """Sets and reads the cookies of pages."""

    def __init__(self, keys: SigningKeys, *, secure: bool) -> None:
        self._keys = keys
        self._secure = secure

    def set(self, response: web.StreamResponse, ticket: Ticket) -> None:
        """Let the browser that has redeemed this ticket see the session."""
        ends = min(int(time.time()) + PAGE_SECONDS, int(ticket.until.timestamp()))
        claims = PageClaims(
            tenant=ticket.tenant,
            cluster=ticket.cluster,
            job_id=ticket.job_id,
            member=ticket.member,
            sign_in=ticket.sign_in,
            by_token=ticket.by_token,
            exp=ends,
        )
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
    return name in (COOKIE, HOST_COOKIE, LOGIN_COOKIE) or name.startswith((PREFIX, HOST_PREFIX))
