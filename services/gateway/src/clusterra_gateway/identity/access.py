"""What a private route asks before its handler runs: who calls, and for which of their tenant's clusters."""

from aiohttp import web
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.store import StoreUnavailable
from pydantic import ValidationError

from clusterra_gateway.http.errors import Forbidden, NotFound, Unauthenticated
from clusterra_gateway.identity.authentication import Authentication, Caller
from clusterra_gateway.identity.cookies import Cookies
from clusterra_gateway.identity.open_streams import OpenStreams, StreamPermission
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

    async def owner(self, token: str) -> Caller:
        """The owner of a token that came in another header than usual. Raises Unauthenticated."""
        return await self._authentication.owner(token)

    def cluster(self, request: web.Request, caller: Caller) -> ClusterRef:
        """The cluster in the path, which must be one of the caller's tenant. Raises NotFound."""
        try:
            ref = caller.cluster(request.match_info["cluster_id"])
        except ValidationError:
            ref = None
        if ref is None or self._registry.get(ref) is None:
            raise NotFound("there is no such cluster", hint="GET /v1/clusters lists yours")
        return ref

    def shared_path(self, ref: ClusterRef) -> str:
        """The path of a cluster's shared folder in its jobs. Raises NotFound."""
        binding = self._registry.get(ref)
        if binding is None:
            raise NotFound("there is no such cluster", hint="GET /v1/clusters lists yours")
        return binding.shared_path

    def stream_permission(self, request: web.Request, caller: Caller) -> StreamPermission:
        """The permission of a stream: it holds while the caller's credential is valid and their role is the same.

        With another role they see other things, so they must open the stream again.
        """

        async def check() -> bool:
            try:
                again = await self.caller(request)
            except (Unauthenticated, Forbidden):
                return False
            except StoreUnavailable:
                return True  # the credential was valid at the last check, and the next check is due soon
            return again.member.role == caller.member.role

        return self.streams.permission(caller.member.tenant, check)
