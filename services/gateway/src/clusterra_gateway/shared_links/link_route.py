"""Routes for whoever has a shared link, and no others: they take its token alone, and no credential of a member."""

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from http import HTTPStatus
from typing import ClassVar, override

import structlog
from aiohttp import web
from clusterra_runtime import tracing
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.http.requests.errors import Unavailable
from clusterra_gateway.http.requests.long_transfers import counting
from clusterra_gateway.http.requests.parameters import Query, query
from clusterra_gateway.http.routes.route import Route, SecurityScheme
from clusterra_gateway.http.routes.route_group import RouteGroup
from clusterra_gateway.shared_links.opened_link import LinkAccess, OpenedLink, no_such_link

type LinkHandler = Callable[[web.Request, OpenedLink], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class LinkRoute(Route):
    """A route whose handler gets the link. Every log line of the request names the tenant and the link."""

    security: ClassVar[tuple[SecurityScheme, ...]] = (
        SecurityScheme("link", {"type": "http", "scheme": "bearer", "description": "The token of a shared link."}),
    )

    handler: LinkHandler
    _: KW_ONLY
    access: LinkAccess

    @property
    @override
    def refuses(self) -> frozenset[HTTPStatus]:
        return frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS})

    @override
    async def serve(self, request: web.Request) -> web.StreamResponse:
        link = await self.access.opened(request)
        if self.query is None:
            query(request, Query)
        tenant = link.record.tenant
        tracing.current().set_attribute(tracing.TENANT, tenant)
        with (
            counting(request, partial(self.access.streams.opened, tenant, f"link:{link.id}")),
            structlog.contextvars.bound_contextvars(tenant=tenant, link=link.id),
        ):
            try:
                return await self.handler(request, link)
            except RpcFailed as failed:
                # Not the error's text: it may name what only the owner knows, such as a path.
                if failed.error.kind == "unavailable":
                    raise Unavailable("the cluster does not answer now", hint="try again in a moment") from None
                raise no_such_link() from None


def link_routes() -> RouteGroup[[web.Request, OpenedLink]]:
    """Routes of shared links."""
    return RouteGroup(LinkRoute)
