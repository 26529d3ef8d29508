"""The API's description of itself: the list of routes for programs, and the OpenAPI document."""

import asyncio
from collections.abc import Sequence
from functools import cached_property

from aiohttp import web

from clusterra_gateway.http.answers.responses import ResponseBody, json_bytes, json_response
from clusterra_gateway.http.routes.openapi import document
from clusterra_gateway.http.routes.route import PublicRoute, Route


class ApiRoute(ResponseBody):
    """One route. The response of a `stream` has no end.

    `role` is the least role that may call it, and `scope` what a limited token needs; null for routes without a caller.
    """

    name: str
    method: str
    path: str
    stream: bool
    role: str | None
    scope: str | None


class ApiRoutes(ResponseBody):
    """All routes."""

    routes: tuple[ApiRoute, ...]


class ApiDescription:
    """The descriptions of some routes as JSON. Each is made at its first read: most replicas are never asked."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._document: bytes | None = None

    @cached_property
    def listed(self) -> ApiRoutes:
        """All routes."""
        return ApiRoutes(
            routes=tuple(
                ApiRoute(
                    name=route.name,
                    method=route.method,
                    path=route.path,
                    stream=route.stream,
                    role=route.role,
                    scope=route.scope,
                )
                for route in self._routes
            )
        )

    async def document(self) -> bytes:
        """The OpenAPI document, made on a thread."""
        if self._document is None:
            self._document = await asyncio.to_thread(document, self._routes)
        return self._document


DESCRIPTION = web.AppKey("description", ApiDescription)


async def api_routes(request: web.Request) -> web.StreamResponse:
    """Lists all routes, for programs that build on them."""
    return json_response(request.app[DESCRIPTION].listed)


async def openapi(request: web.Request) -> web.StreamResponse:
    """Returns this document."""
    return json_bytes(await request.app[DESCRIPTION].document())


ROUTES: tuple[Route, ...] = (
    PublicRoute("api_routes", "GET", "/v1/api-routes", api_routes, result=ApiRoutes),
    PublicRoute("openapi", "GET", "/v1/openapi.json", openapi, result="application/json"),
)
