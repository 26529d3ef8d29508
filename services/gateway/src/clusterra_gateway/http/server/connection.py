"""A connection of a client, which may repeat its Content-Type: slurmrestd takes that, and aiohttp's parser does not.

SchedMD's client for Go (github.com/SlinkyProject/slurm-client, in all versions) sends the header twice.
"""

import re
import uuid
from http import HTTPStatus
from typing import Any, override

import structlog
from aiohttp import StreamReader, web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from clusterra_gateway.http.answers.problems import REQUEST_ID, bare_problem

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
    """aiohttp's own, except for that header, and for the answer to what it cannot read."""

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
