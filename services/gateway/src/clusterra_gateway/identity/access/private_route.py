"""Routes for callers who prove who they are: for people, of the API or of one cluster; and for operators."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from http import HTTPStatus
from typing import ClassVar, override

import structlog
from aiohttp import web
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime import tracing

from clusterra_gateway.accounts.roles import OPERATOR_ROLE, OperatorScope, Role, Scope
from clusterra_gateway.http.requests.long_transfers import counting
from clusterra_gateway.http.requests.parameters import Parameter, Query, query
from clusterra_gateway.http.routes.route import Route, SecurityScheme
from clusterra_gateway.http.routes.route_group import RouteGroup
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.identity.access.authentication import COOKIE, HOST_COOKIE, Caller
from clusterra_gateway.identity.access.operators import Operator

CLUSTER = "/v1/clusters/{cluster_id}"
"""The path that every route of a cluster begins with."""
CLUSTER_ID = Parameter("cluster_id", "path", "^[a-z0-9][a-z0-9-]{0,38}$")

SESSION_COOKIES = (
    SecurityScheme("cookie", {"type": "apiKey", "in": "cookie", "name": COOKIE}),
    SecurityScheme("host_cookie", {"type": "apiKey", "in": "cookie", "name": HOST_COOKIE}),
)
"""The session of a browser: over HTTPS, its cookie has the second name."""

_REFUSED_CALLER = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS})
"""What a caller is refused with who is unknown, lacks the role or the scope, or sends more than the limits allow."""

type CallerHandler = Callable[[web.Request, Caller], Awaitable[web.StreamResponse]]
type ClusterHandler = Callable[[web.Request, Caller, ClusterRef], Awaitable[web.StreamResponse]]
type OperatorHandler = Callable[[web.Request, Operator], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class PrivateRoute(Route):
    """A route for signed-in callers. Every log line of the request names the tenant and the user.

    `role` is the least role that may call it, and `scope` what a limited token needs. A query parameter that the route
    does not declare is an error.
    """

    security: ClassVar[tuple[SecurityScheme, ...]] = (
        *SESSION_COOKIES,
        SecurityScheme("bearer", {"type": "http", "scheme": "bearer"}),
    )

    _: KW_ONLY
    access: Access
    scope: Scope
    role: Role = "viewer"
    any_query: bool = False
    """Whether the handler looks at no query parameter, and none is an error."""

    @property
    @override
    def refuses(self) -> frozenset[HTTPStatus]:
        changes = self.method != "GET" and not self.scope.endswith(":read")
        return _REFUSED_CALLER | ({HTTPStatus.CONFLICT} if changes else frozenset())

    @override
    async def serve(self, request: web.Request) -> web.StreamResponse:
        caller = await self._caller(request)
        self.access.limits.admit(request, caller.member.id)
        caller.require(self.role, self.scope)
        if self.query is None and not self.any_query:
            query(request, Query)
        tracing.current().set_attribute(tracing.TENANT, caller.member.tenant)
        tenant, member_id = caller.member.tenant, caller.member.id
        with (
            counting(request, partial(self.access.streams.opened, tenant, member_id)),
            structlog.contextvars.bound_contextvars(tenant=tenant, user=caller.member.user),
        ):
            return await self._handle_for(request, caller)

    async def _caller(self, request: web.Request) -> Caller:
        return await self.access.caller(request)

    @abstractmethod
    async def _handle_for(self, request: web.Request, caller: Caller) -> web.StreamResponse: ...


@dataclass(frozen=True)
class CallerRoute(PrivateRoute):
    """A private route whose handler gets the caller."""

    handler: CallerHandler

    @override
    async def _handle_for(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        return await self.handler(request, caller)


@dataclass(frozen=True)
class ClusterRoute(PrivateRoute):
    """A private route below `/v1/clusters/{cluster_id}`.

    Its handler gets the caller, and a cluster of the caller's tenant: no handler can reach another tenant's.
    """

    handler: ClusterHandler

    @property
    @override
    def refuses(self) -> frozenset[HTTPStatus]:
        to_slurm = self.scope == "jobs:write"
        return super().refuses | ({HTTPStatus.UNPROCESSABLE_ENTITY} if to_slurm else frozenset())

    @override
    async def _handle_for(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        return await self.handler(request, *await self.access.on_cluster(request, caller))


@dataclass(frozen=True)
class OperatorRoute(Route):
    """A route whose handler gets an operator. Every log line of the request names them.

    The credential of a member is refused with 403, whatever their role: no role of a tenant makes an operator.
    """

    security: ClassVar[tuple[SecurityScheme, ...]] = (
        SecurityScheme("operator", {"type": "http", "scheme": "bearer", "description": "An operator's token."}),
    )

    handler: OperatorHandler
    _: KW_ONLY
    access: Access
    scope: OperatorScope
    role: str = OPERATOR_ROLE

    @property
    @override
    def refuses(self) -> frozenset[HTTPStatus]:
        return _REFUSED_CALLER | ({HTTPStatus.CONFLICT} if self.method != "GET" else frozenset())

    @override
    async def serve(self, request: web.Request) -> web.StreamResponse:
        operator = await self.access.operator(request)
        self.access.limits.admit(request, operator.actor)
        operator.require(self.scope)
        if self.query is None:
            query(request, Query)
        with structlog.contextvars.bound_contextvars(operator=operator.actor):
            return await self.handler(request, operator)


@dataclass(frozen=True)
class Needs:
    """What a caller needs: the least role, and the scope of a limited token."""

    scope: Scope
    role: Role = "viewer"

    @property
    def fields(self) -> dict[str, str]:
        """The fields of a private route."""
        return {"scope": self.scope, "role": self.role}


def caller_routes(
    *parameters: Parameter, reads: Needs | None = None, changes: Needs | None = None
) -> RouteGroup[[web.Request, Caller]]:
    """Routes of the API as a whole. `reads` holds for each GET, `changes` for the other methods; one alone for all."""
    return RouteGroup(CallerRoute, parameters, *_fields(reads, changes))


def cluster_routes(
    *parameters: Parameter, reads: Needs | None = None, changes: Needs | None = None
) -> RouteGroup[[web.Request, Caller, ClusterRef]]:
    """Routes of one cluster. `reads` holds for each GET, `changes` for the other methods; one alone for all."""
    return RouteGroup(ClusterRoute, (CLUSTER_ID, *parameters), *_fields(reads, changes))


def operator_routes(*parameters: Parameter) -> RouteGroup[[web.Request, Operator]]:
    """Routes about tenants and their clusters, never about what the tenants do with them."""
    return RouteGroup(OperatorRoute, parameters, {"scope": "tenants:read"}, {"scope": "tenants:write"})


def _fields(reads: Needs | None, changes: Needs | None) -> tuple[dict[str, str], dict[str, str]]:
    needs = [each for each in (reads, changes) if each is not None]
    if not needs:
        raise ValueError("a private route says what its callers need")
    return needs[0].fields, needs[-1].fields
