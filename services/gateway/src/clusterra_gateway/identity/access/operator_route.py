"""Routes for the operators of the platform: of tenants and their clusters, never of what the tenants do with them."""

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, override

import structlog
from aiohttp import web

from clusterra_gateway.accounts.roles import OPERATOR_ROLE, OperatorScope
from clusterra_gateway.http.requests.parameters import Parameter, Query, query
from clusterra_gateway.http.routes.route import Route, SecurityScheme
from clusterra_gateway.http.routes.route_group import RouteGroup
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.identity.access.operators import Operator

type OperatorHandler = Callable[[web.Request, Operator], Awaitable[web.StreamResponse]]


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

    @override
    async def serve(self, request: web.Request) -> web.StreamResponse:
        operator = await self.access.operator(request)
        self.access.limits.admit(request, operator.actor)
        operator.require(self.scope)
        if self.query is None:
            query(request, Query)
        with structlog.contextvars.bound_contextvars(operator=operator.name):
            return await self.handler(request, operator)


def operator_routes(*parameters: Parameter) -> RouteGroup[[web.Request, Operator]]:
    """Routes about tenants."""
    return RouteGroup(OperatorRoute, parameters, {"scope": "tenants:read"}, {"scope": "tenants:write"})
