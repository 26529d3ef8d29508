"""What the gateway says about itself: its routes for programs, and the OpenAPI document."""

from aiohttp import web
from pydantic import BaseModel, ConfigDict

from clusterra_gateway.http.replies import reply

DOCUMENT = web.AppKey("document", bytes)
"""The OpenAPI document, as it is sent."""


class ApiRoute(BaseModel):
    """One route; `stream` says that its answer never ends by itself."""

    model_config = ConfigDict(frozen=True)

    name: str
    method: str
    path: str
    stream: bool


class ApiRoutes(BaseModel):
    """All routes."""

    model_config = ConfigDict(frozen=True)

    routes: tuple[ApiRoute, ...]


API_ROUTES = web.AppKey("api_routes", ApiRoutes)


async def api_routes(request: web.Request) -> web.StreamResponse:
    """All routes, for programs that build on them."""
    return reply(request.app[API_ROUTES])


async def openapi(request: web.Request) -> web.StreamResponse:
    """This document."""
    return web.Response(body=request.app[DOCUMENT], content_type="application/json")
