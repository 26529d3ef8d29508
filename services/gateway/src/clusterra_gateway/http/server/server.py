"""The HTTP server: serves a table of routes with aiohttp."""

import asyncio
import logging
import re
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, override

import structlog
from aiohttp import StreamReader, web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

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
from clusterra_gateway.http.answers.problems import REQUEST_ID, bare_problem
from clusterra_gateway.http.answers.sse import STOPPING
from clusterra_gateway.http.requests.json_body import MAX_BODY_BYTES
from clusterra_gateway.http.routes.api_description import DESCRIPTION, ApiDescription
from clusterra_gateway.http.routes.route import Route

log = structlog.get_logger()

MAX_LINE_BYTES = 8190
"""Of a request's first line, and of each header: aiohttp's limit."""
MAX_DETAIL_CHARACTERS = 200
_REQUEST_LINE = re.compile(rb"[A-Z]{1,16} [^\r\n]+ HTTP/1\.[01]\r\n")
_CONTENT_TYPE = re.compile(rb"\r\n(content-type:[^\r\n]*)(?=\r\n)", re.IGNORECASE)
_END_OF_HEAD = b"\r\n\r\n"


def without_repeated_content_type(data: bytes) -> bytes:
    """Bytes that begin with the whole head of a request, with a Content-Type that says the same again left out.

    All others are returned as they are. Headers that differ stay: the parser refuses them.
    """
    if not _REQUEST_LINE.match(data):
        return data
    head, end, rest = data.partition(_END_OF_HEAD)
    lines = list(_CONTENT_TYPE.finditer(head + b"\r\n"))
    if not end or len(lines) < 2 or len({line.group(1) for line in lines}) > 1:
        return data
    for repeated in reversed(lines[1:]):
        head = head[: repeated.start()] + head[repeated.end() :]
    return head + end + rest


class Connection(web.RequestHandler):
    """aiohttp's own, except for a repeated Content-Type, and for the answer to what it cannot read.

    SchedMD's client for Go (github.com/SlinkyProject/slurm-client, in all versions) sends that header twice. slurmrestd
    takes it, and aiohttp's parser does not.
    """

    __slots__ = ("_last_body",)

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._last_body: StreamReader | None = None

    @override
    async def _handle_request(self, request: web.BaseRequest, *rest: Any) -> tuple[web.StreamResponse, bool]:
        self._last_body = request.content
        return await super()._handle_request(request, *rest)

    @override
    def data_received(self, data: bytes) -> None:
        """Takes the next bytes of a client. Between two requests, they may begin with one.

        A request may be answered before its body is here. If its body lost bytes, it would take as many of the next
        request, which another client may have sent: a load balancer uses one connection for all.
        """
        within_a_request = self._current_request is not None or bool(self._messages)
        if not within_a_request and (self._last_body is None or self._last_body.is_eof()):
            data = without_repeated_content_type(data)
        super().data_received(data)

    @override
    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answers a request whose head cannot be read with a problem, as all others. The log has nothing of it."""
        if not isinstance(exc, HttpProcessingError) or request.writer.output_size > 0:
            return super().handle_error(request, status, exc, message)
        log.info("request_unreadable", reason=type(exc).__name__)
        detail = (message or "the request is no HTTP").partition("\n")[0][:MAX_DETAIL_CHARACTERS]
        if isinstance(exc, LineTooLong):
            detail = f"the path with its query, or a header, is longer than {MAX_LINE_BYTES} bytes"
        request_id = uuid.uuid4().hex
        response = bare_problem(status, detail, request_id).response()
        response.headers[REQUEST_ID] = request_id
        response.force_close()
        return response


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
