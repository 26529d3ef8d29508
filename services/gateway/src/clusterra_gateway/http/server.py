"""The HTTP server: the table of routes on aiohttp."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

import orjson
from aiohttp import web

from clusterra_gateway.context import GATEWAY, Gateway
from clusterra_gateway.http import openapi
from clusterra_gateway.http.description import API_ROUTES, DOCUMENT, ApiRoute, ApiRoutes
from clusterra_gateway.http.parameters import MAX_BODY_BYTES
from clusterra_gateway.http.problems import problems, stamp
from clusterra_gateway.http.sse import STOPPING
from clusterra_gateway.routes import ROUTES

SHUTDOWN_SECONDS = 10.0
"""How long requests that are being answered may take when the process stops."""


def application(gateway: Gateway) -> web.Application:
    """The application that serves all routes with these parts."""
    app = web.Application(middlewares=[problems], client_max_size=MAX_BODY_BYTES)
    app[GATEWAY] = gateway
    app[STOPPING] = asyncio.Event()
    app[DOCUMENT] = _document()
    app[API_ROUTES] = ApiRoutes(
        routes=tuple(
            ApiRoute(name=route.name, method=route.method, path=route.path, stream=route.stream) for route in ROUTES
        )
    )
    app.on_response_prepare.append(stamp)
    for route in ROUTES:
        app.router.add_route(route.method, route.path, route.serve, name=route.name)
    return app


@cache
def _document() -> bytes:
    return orjson.dumps(openapi.document(ROUTES))


@asynccontextmanager
async def serving(gateway: Gateway) -> AsyncIterator[int]:
    """Listen, and give the port; at the end take no more, end the streams, and finish what is being answered."""
    app = application(gateway)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, gateway.settings.http_host, gateway.settings.http_port)
        await site.start()
        yield site.port
    finally:
        app[STOPPING].set()
        await runner.cleanup()
