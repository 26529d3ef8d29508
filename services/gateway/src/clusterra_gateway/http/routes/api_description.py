"""The API's description of itself: the list of routes for programs, and the OpenAPI document."""

import asyncio
from collections.abc import Sequence

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


API_ROUTES = web.AppKey("api_routes", ApiRoutes)


class ApiDocument:
    """The OpenAPI document of some routes. The first read makes it, on a thread: most replicas are never asked."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._content: bytes | None = None

    async def content(self) -> bytes:
        """The document as JSON."""
        if self._content is None:
            self._content = await asyncio.to_thread(document, self._routes)
        return self._content


DOCUMENT = web.AppKey("document", ApiDocument)


def describe(app: web.Application, routes: Sequence[Route]) -> None:
    """Gives the application the descriptions of these routes, which the handlers below serve."""
    app[API_ROUTES] = ApiRoutes(
        routes=tuple(
            ApiRoute(
                name=route.name,
                method=route.method,
                path=route.path,
                stream=route.stream,
                role=route.role,
                scope=route.scope,
            )
            for route in routes
        )
    )
    app[DOCUMENT] = ApiDocument(routes)


async def api_routes(request: web.Request) -> web.StreamResponse:
    """Lists all routes, for programs that build on them."""
    return json_response(request.app[API_ROUTES])


async def openapi(request: web.Request) -> web.StreamResponse:
    """Returns this document."""
    return json_bytes(await request.app[DOCUMENT].content())


ROUTES: tuple[Route, ...] = (
    PublicRoute("api_routes", "GET", "/v1/api-routes", api_routes, result=ApiRoutes),
    PublicRoute("openapi", "GET", "/v1/openapi.json", openapi, result="application/json"),
)
