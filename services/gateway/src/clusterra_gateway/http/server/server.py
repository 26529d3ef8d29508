"""The HTTP server: serves a table of routes with aiohttp."""

import asyncio
import logging
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager

from aiohttp import web

from clusterra_gateway.http.answers.middleware import (
    ENCRYPTED,
    LEAVING,
    ORIGINS,
    STREAMS,
    add_headers,
    preflight,
    problems,
    representation,
)
from clusterra_gateway.http.answers.sse import STOPPING
from clusterra_gateway.http.requests.json_body import MAX_BODY_BYTES
from clusterra_gateway.http.routes.api_description import DESCRIPTION, ApiDescription
from clusterra_gateway.http.routes.route import Route
from clusterra_gateway.http.server.connection import Connection

SHUTDOWN_SECONDS = 10.0
"""Time for open requests to finish when the process stops."""
_NO_LOG = logging.Logger("access", logging.CRITICAL)
"""Requests are counted and traced, and not logged one by one."""
_PARAMETER = re.compile(r"\{(\w+)\}")
"""A last segment of a path that is a parameter without a syntax of its own."""


def application(
    routes: Sequence[Route],
    leaving: asyncio.Event | None = None,
    *,
    encrypted: bool = False,
    origins: Collection[str] = (),
) -> web.Application:
    """The application that serves these routes. Once `leaving` is set, each answer ends its connection.

    `encrypted`: whether browsers reach it over HTTPS only. `origins`: the other origins whose pages may use it.
    """
    app = web.Application(middlewares=[problems, preflight, representation], client_max_size=MAX_BODY_BYTES)
    app[ENCRYPTED] = encrypted
    app[ORIGINS] = frozenset(origins)
    app[STOPPING] = asyncio.Event()
    app[LEAVING] = leaving or asyncio.Event()
    app[STREAMS] = frozenset(route.name for route in routes if route.stream)
    app[DESCRIPTION] = ApiDescription(routes)
    app.on_response_prepare.append(add_headers)
    literals = _last_literals(routes)
    for route in routes:
        for path, name in ((route.pattern, route.name), *((alias, None) for alias in route.aliases)):
            resource = app.router.add_resource(_without_literals(path, literals), name=name)
            resource.add_route(route.method, route.serve)
            if route.has_head:
                resource.add_route("HEAD", route.serve)
    return app


def _last_literals(routes: Sequence[Route]) -> dict[str, list[str]]:
    """The fixed last segments of paths, such as `submit`, by what comes before them."""
    found = defaultdict[str, set[str]](set)
    for route in routes:
        before, _, last = route.path.rpartition("/")
        if last and not last.startswith("{"):
            found[before].add(last)
    return {before: sorted(names) for before, names in found.items()}


def _without_literals(path: str, literals: Mapping[str, Sequence[str]]) -> str:
    """A path whose last parameter does not match the last segment of another route.

    Otherwise `PATCH .../jobs/submit` would change a job of the id `submit`, in place of being answered with 405.
    """
    before, _, last = path.rpartition("/")
    parameter = _PARAMETER.fullmatch(last)
    if parameter is None or before not in literals:
        return path
    others = "|".join(map(re.escape, literals[before]))
    return f"{before}/{{{parameter[1]}:(?!(?:{others})$)[^{{}}/]+}}"


@asynccontextmanager
async def serving(
    routes: Sequence[Route],
    host: str,
    port: int,
    *,
    leaving: asyncio.Event | None = None,
    encrypted: bool = False,
    origins: Collection[str] = (),
) -> AsyncIterator[int]:
    """Listens until the block ends, and yields the port. At the end: takes no new requests, ends the streams, and
    lets open requests finish. While `leaving` is set before that, clients are made to use new connections, which load
    balancers lead to other replicas.
    """
    app = application(routes, leaving, encrypted=encrypted, origins=origins)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    server, loop = runner.server, asyncio.get_running_loop()
    assert server is not None  # noqa: S101 - there is one after `setup`
    try:
        listening = await loop.create_server(lambda: Connection(server, loop=loop, access_log=_NO_LOG), host, port)
        try:
            yield listening.sockets[0].getsockname()[1]
        finally:
            listening.close()
    finally:
        app[STOPPING].set()
        await runner.cleanup()
