"""What a private route asks before its handler runs: who calls, and for which of their tenant's clusters."""

from dataclasses import replace

from aiohttp import web
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.store import StoreUnavailable
from pydantic import ValidationError

from clusterra_gateway.http.requests.errors import Forbidden, NotFound, Unauthenticated
from clusterra_gateway.identity.access.authentication import Authentication, Caller
from clusterra_gateway.identity.access.cookies import Cookies
from clusterra_gateway.identity.access.limits import OpenStreams, RateLimits, StreamPermission
from clusterra_gateway.identity.access.operators import Operator
from clusterra_gateway.identity.access.unix_users import UnixUsers


class Access:
    """Decides whether a request may go on to its handler."""

    def __init__(
        self,
        authentication: Authentication,
        registry: Registry,
        limits: RateLimits,
        cookies: Cookies,
        unix_users: UnixUsers,
    ) -> None:
        self.limits = limits
        self._cookies = cookies
        self._authentication = authentication
        self._registry = registry
        self._unix_users = unix_users
        self.streams = OpenStreams()

    async def caller(self, request: web.Request) -> Caller:
        """The caller. Raises Unauthenticated, and Forbidden for a request that another site's page made."""
        caller = await self._authentication.caller(request)
        self._cookies.renew_session(request, caller)
        return caller

    async def operator(self, request: web.Request) -> Operator:
        """The operator of the platform who calls. Raises Unauthenticated, and Forbidden for a member."""
        return await self._authentication.operator(request)

    async def owner(self, request: web.Request, token: str) -> Caller:
        """The owner of a token that came in another header than usual. Raises Unauthenticated, TooManyRequests."""
        return await self._authentication.owner(request, token)

    async def on_cluster(self, request: web.Request, caller: Caller) -> tuple[Caller, ClusterRef]:
        """The caller as the cluster in the path sees them, and the cluster, which must be one of their tenant.

        Raises NotFound, StoreError.
        """
        try:
            ref = caller.cluster(request.match_info["cluster_id"])
        except ValidationError:
            ref = None
        if ref is None:
            raise NotFound("there is no such cluster", hint="GET /v1/clusters lists yours")
        return await self.seen_by(ref, caller), ref

    async def seen_by(self, ref: ClusterRef, caller: Caller) -> Caller:
        """The caller as a cluster of their tenant sees them. Raises NotFound, StoreError."""
        binding = self._registry.get(ref)
        if binding is None:
            raise NotFound("there is no such cluster", hint="GET /v1/clusters lists yours")
        unix_user = await self._unix_users.of(caller.member, binding)
        # On a cluster that others use as well, not everybody's jobs are those of the tenant.
        sees_all = binding.visibility == "tenant" and not binding.attached
        return replace(caller, sees_all=sees_all, unix_user=unix_user)

    def shared_path(self, ref: ClusterRef) -> str:
        """The path of a cluster's shared folder in its jobs. Raises NotFound."""
        binding = self._registry.get(ref)
        if binding is None:
            raise NotFound("there is no such cluster", hint="GET /v1/clusters lists yours")
        return binding.shared_path

    def stream_permission(self, request: web.Request, caller: Caller) -> StreamPermission:
        """The permission of a stream: it holds while the caller's credential is valid, and while they see the same.

        With another role, or another visibility of the cluster, they see other things: they open the stream again.
        """

        async def check() -> bool:
            try:
                again = await self.caller(request)
                if "cluster_id" in request.match_info:
                    again, _ = await self.on_cluster(request, again)
            except (Unauthenticated, Forbidden, NotFound):
                return False
            except StoreUnavailable:
                return True  # the credential was valid at the last check, and the next check is due soon
            return _sight(again) == _sight(caller)

        return self.streams.permission(caller.member.tenant, check)


def _sight(caller: Caller) -> tuple[object, ...]:
    """What decides which jobs a caller sees."""
    return caller.member.role, caller.sees_all, caller.unix_user
