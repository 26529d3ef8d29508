"""The HTTP server: serves a table of routes with aiohttp."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiohttp import web

from clusterra_gateway.http.api_description import describe
from clusterra_gateway.http.json_body import MAX_BODY_BYTES
from clusterra_gateway.http.middleware import ENCRYPTED, LEAVING, STREAMS, add_headers, problems
from clusterra_gateway.http.representation import representation
from clusterra_gateway.http.route import Route
from clusterra_gateway.http.sse import STOPPING

SHUTDOWN_SECONDS = 10.0
"""Time for open requests to finish when the process stops."""


def application(
    routes: Sequence[Route], leaving: asyncio.Event | None = None, *, encrypted: bool = False
) -> web.Application:
    """The application that serves these routes. Once `leaving` is set, each answer ends its connection.

    `encrypted`: whether browsers reach it over HTTPS only.
    """
    app = web.Application(middlewares=[problems, representation], client_max_size=MAX_BODY_BYTES)
    app[ENCRYPTED] = encrypted
    app[STOPPING] = asyncio.Event()
    app[LEAVING] = leaving or asyncio.Event()
    app[STREAMS] = frozenset(route.name for route in routes if route.stream)
    describe(app, routes)
    app.on_response_prepare.append(add_headers)
    for route in routes:
        for path, name in ((route.pattern, route.name), *((alias, None) for alias in route.aliases)):
            resource = app.router.add_resource(path, name=name)
            resource.add_route(route.method, route.serve)
            if route.has_head:
                resource.add_route("HEAD", route.serve)
    return app


@asynccontextmanager
async def serving(
    routes: Sequence[Route],
    host: str,
    port: int,
    *,
    leaving: asyncio.Event | None = None,
    encrypted: bool = False,
) -> AsyncIterator[int]:
    """Listens until the block ends, and yields the port. At the end: takes no new requests, ends the streams, and
    lets open requests finish. While `leaving` is set before that, clients are made to use new connections, which load
    balancers lead to other replicas.
    """
    app = application(routes, leaving, encrypted=encrypted)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield site.port
    finally:
        app[STOPPING].set()
        await runner.cleanup()
