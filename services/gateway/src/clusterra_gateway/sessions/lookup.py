"""Finds the session that a page's cookie names, and checks that its owner may still open it.

The answer is cached for a few seconds. Requests that ask meanwhile share one look (single flight).
"""

import time
from collections import Counter
from dataclasses import dataclass
from functools import partial

from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.edge_streams import SessionJob
from clusterra_contracts.rpc.reply import RpcError
from clusterra_runtime.bounded_cache import BoundedCache
from clusterra_runtime.nats.byte_stream.opener import ByteStream
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.single_flight import SingleFlight

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, api_token_key, signed_out_key
from clusterra_gateway.accounts.roles import includes
from clusterra_gateway.http.requests.errors import NotFound
from clusterra_gateway.identity.access.unix_users import UnixUsers
from clusterra_gateway.sessions.entrance import Entrance, ServerToken
from clusterra_gateway.sessions.page_credentials import PageClaims
from clusterra_gateway.sessions.session_jobs import SessionJobs, SessionView

READY_SECONDS = 10.0
"""How long it is cached that a session is ready, and that the person may open it."""
WAITING_SECONDS = 1.0
"""How long it is cached that a session is not ready yet, or is gone."""
MAX_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class FoundSession:
    """The session that a page's cookie names. `host` is its host name in aiohttp's client."""

    view: SessionView
    token: str
    host: str

    @property
    def server_token(self) -> ServerToken:
        """What its server demands."""
        return ServerToken(self.token, None if self.view.ready is None else self.view.ready.token_cookie)


class SessionLookup:
    """Finds sessions for pages, and opens byte streams to them."""

    def __init__(
        self,
        client: Client,
        directory: Directory,
        registry: Registry,
        unix_users: UnixUsers,
        jobs: SessionJobs,
        entrance: Entrance,
    ) -> None:
        self._client = client
        self._directory = directory
        self._registry = registry
        self._unix_users = unix_users
        self._jobs = jobs
        self._entrance = entrance
        self._known = BoundedCache[PageClaims, FoundSession](MAX_KNOWN)
        self._gone = BoundedCache[PageClaims, None](MAX_KNOWN, WAITING_SECONDS)
        """The sessions that are gone. They are looked for again after a second."""
        self._looks = SingleFlight[tuple[PageClaims, int], FoundSession]()
        self._forgotten = Counter[str]()
        """Tenant -> how often somebody there may have come to see less: looks from before are not shared or cached."""
        self._targets = BoundedCache[str, tuple[ClusterRef, SessionJob]](MAX_KNOWN)

    async def find(self, claims: PageClaims) -> FoundSession:
        """The session of these claims, ready or not.

        Raises NotFound for one that is not the member's any more, has ended, or whose sign-in has; RpcFailed,
        StoreUnavailable, Unauthenticated.
        """
        # A WebSocket outlives the look at its cookie.
        if claims.exp <= time.time():
            raise _gone()
        known = self._known.get(claims)
        if known is not None:
            return known
        if claims in self._gone:
            raise _gone()
        forgotten = self._forgotten[claims.tenant]
        return await self._looks.get((claims, forgotten), partial(self._look, claims, forgotten))

    async def _look(self, claims: PageClaims, forgotten: int) -> FoundSession:
        try:
            ref, view = await self._found(claims)
            reached = self._reached(claims, ref, view)
        except NotFound:
            self._gone.put(claims, None)
            raise
        if self._forgotten[claims.tenant] == forgotten:
            seconds = READY_SECONDS if view.state == "ready" else WAITING_SECONDS
            self._known.put(claims, reached, seconds=seconds)
        return reached

    async def _found(self, claims: PageClaims) -> tuple[ClusterRef, SessionView]:
        ref = ClusterRef(tenant=claims.tenant, cluster=claims.cluster)
        binding, member = self._registry.get(ref), await self._directory.member(claims.member)
        if binding is None or member is None or member.disabled or member.tenant != claims.tenant:
            raise _gone()
        if not includes(member.role, "member") or not await self._credential_holds(claims):
            raise _gone()
        there = await self._unix_users.of(member, binding)
        if there.user is None:
            raise _gone()
        view = await self._jobs.find(ref, member.id, there.user, claims.job_id)
        if view.state == "ended":
            raise _gone()
        return ref, view

    def forget(self, tenant: str) -> None:
        """Have the sessions of a tenant be looked at again: somebody may see less than before."""
        self._known.forget(lambda claims, _: claims.tenant == tenant)
        self._forgotten[tenant] += 1

    async def open(self, host: str) -> ByteStream:
        """Open a stream to the session that a host name stands for. Raises RpcFailed."""
        target = self._targets.get(host)
        if target is None:
            raise RpcFailed(RpcError(kind="not_found", detail="this session is not known here"))
        return await ByteStream.open(self._client, *target)

    async def _credential_holds(self, claims: PageClaims) -> bool:
        """Whether the sign-in or the token that asked for the page's ticket was not taken."""
        store = self._directory.store
        if claims.by_token:
            return await store.get(ACCOUNTS, api_token_key(claims.member, claims.sign_in)) is not None
        return await store.get(ACCOUNTS, signed_out_key(claims.member, claims.sign_in)) is None

    def _reached(self, claims: PageClaims, ref: ClusterRef, view: SessionView) -> FoundSession:
        host = f"j{claims.job_id}.{ref.cluster}.{ref.tenant}.session"
        if view.job is not None:
            self._targets.put(host, (ref, view.job))
        return FoundSession(view, self._entrance.token(ref, view.record), host)


def _gone() -> NotFound:
    return NotFound("there is no such session")
