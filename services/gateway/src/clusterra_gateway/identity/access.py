"""What a private route asks before its handler runs: who calls, and for which of their tenant's clusters."""

from dataclasses import replace

from aiohttp import web
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.store import StoreUnavailable
from pydantic import ValidationError

from clusterra_gateway.http.errors import Forbidden, NotFound, Unauthenticated
from clusterra_gateway.identity.authentication import Authentication, Caller
from clusterra_gateway.identity.cookies import Cookies
from clusterra_gateway.identity.open_streams import OpenStreams, StreamPermission
from clusterra_gateway.identity.operators import Operator
from clusterra_gateway.identity.rate_limits import RateLimits


class Access:
    """Decides whether a request may go on to its handler."""

    def __init__(
        self, authentication: Authentication, registry: Registry, limits: RateLimits, cookies: Cookies
    ) -> None:
        self.limits = limits
        self._cookies = cookies
        self._authentication = authentication
        self._registry = registry
        self.streams = OpenStreams()

    async def caller(self, request: web.Request) -> Caller:
        """The caller. Raises Unauthenticated, and Forbidden for a request that another site's page made."""
        caller = await self._authentication.caller(request)
        self._cookies.renew_session(request, caller)
        return caller

    async def operator(self, request: web.Request) -> Operator:
        """The operator of the platform who calls. Raises Unauthenticated, and Forbidden for a member."""
        return await self._authentication.operator(request)

    async def owner(self, token: str) -> Caller:
        """The owner of a token that came in another header than usual. Raises Unauthenticated."""
        return await self._authentication.owner(token)

    def on_cluster(self, request: web.Request, caller: Caller) -> tuple[Caller, ClusterRef]:
        """The caller as the cluster in the path sees them, and the cluster, which must be one of their tenant.

        Raises NotFound.
        """
        try:
            ref = caller.cluster(request.match_info["cluster_id"])
        except ValidationError:
            ref = None
        binding = self._registry.get(ref) if ref is not None else None
        if ref is None or binding is None:
            raise NotFound("there is no such cluster", hint="GET /v1/clusters lists yours")
        return replace(caller, sees_all=binding.visibility == "tenant"), ref

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
                    again, _ = self.on_cluster(request, again)
            except (Unauthenticated, Forbidden, NotFound):
                return False
            except StoreUnavailable:
                return True  # the credential was valid at the last check, and the next check is due soon
            return (again.member.role, again.sees_all) == (caller.member.role, caller.sees_all)

        return self.streams.permission(caller.member.tenant, check)
