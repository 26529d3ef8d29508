"""Turns errors into RFC 9457 problems: the tables from errors to HTTP statuses, and the problem document."""

import re
from http import HTTPStatus

from aiohttp import web
from clusterra_contracts.rpc.reply import ErrorKind, RpcError
from pydantic import BaseModel, ConfigDict

from clusterra_gateway.http.errors import (
    BadUpstream,
    Conflict,
    Forbidden,
    InFlight,
    InvalidRequest,
    KeyReused,
    NotFound,
    OutcomeUnknown,
    Rejected,
    RequestError,
    TooLarge,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    UnsupportedMedia,
)

MEDIA_TYPE = "application/problem+json"
REQUEST_ID = "X-Request-Id"
"""The header with the id of a request, in the request and in its response."""

STATUS: dict[type[RequestError], HTTPStatus] = {
    InvalidRequest: HTTPStatus.BAD_REQUEST,
    Unauthenticated: HTTPStatus.UNAUTHORIZED,
    Forbidden: HTTPStatus.FORBIDDEN,
    NotFound: HTTPStatus.NOT_FOUND,
    Conflict: HTTPStatus.CONFLICT,
    TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    UnsupportedMedia: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    KeyReused: HTTPStatus.UNPROCESSABLE_ENTITY,
    InFlight: HTTPStatus.CONFLICT,
    Rejected: HTTPStatus.UNPROCESSABLE_ENTITY,
    TooManyRequests: HTTPStatus.TOO_MANY_REQUESTS,
    BadUpstream: HTTPStatus.BAD_GATEWAY,
    Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    OutcomeUnknown: HTTPStatus.GATEWAY_TIMEOUT,
}

RPC: dict[ErrorKind, type[RequestError]] = {
    "invalid": InvalidRequest,
    "rejected": Rejected,
    "unauthenticated": BadUpstream,  # Slurm does not accept the proxy's token: signing in again would not help
    "forbidden": Forbidden,
    "not_found": NotFound,
    "conflict": Conflict,
    "unavailable": Unavailable,
}
"""Maps each kind of error that a service answers on the bus to the error of the HTTP request."""

RETRY_AFTER_SECONDS = 1


class Problem(BaseModel):
    """The body of an error: the members of RFC 9457, and our own `hint`, `code` and `request_id`."""

    model_config = ConfigDict(frozen=True)

    type: str
    """`urn:clusterra:problem:<name>`, for programs to decide by; `about:blank` where the status says everything."""
    title: str
    status: int
    detail: str
    hint: str | None = None
    """What the caller can do about it."""
    code: int | None = None
    """Slurm's own error number."""
    request_id: str

    def response(self, retry_after_seconds: int | None = None) -> web.Response:
        """The response with this body. It says when to try again, if that is known or soon."""
        headers = {}
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        if self.status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
            headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
        if retry_after_seconds is not None:
            headers["Retry-After"] = str(retry_after_seconds)
        return web.Response(
            status=self.status,
            body=self.model_dump_json(exclude_none=True),
            content_type=MEDIA_TYPE,
            headers=headers,
        )


def problem_of(error: RequestError, request_id: str) -> Problem:
    """The problem document of a request's error."""
    status = STATUS[type(error)]
    name = re.sub(r"(?<!^)(?=[A-Z])", "-", type(error).__name__).lower()
    return Problem(
        type=f"urn:clusterra:problem:{name}",
        title=status.phrase,
        status=status,
        detail=error.detail,
        hint=error.hint or None,
        code=error.code,
        request_id=request_id,
    )


def bare_problem(status: int, detail: str, request_id: str) -> Problem:
    """The problem document of an error that its HTTP status describes completely."""
    return Problem(
        type="about:blank", title=HTTPStatus(status).phrase, status=status, detail=detail, request_id=request_id
    )


def internal_problem(request_id: str) -> Problem:
    """The problem document of an unexpected error. It reveals no internals."""
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    return Problem(
        type="urn:clusterra:problem:internal",
        title=status.phrase,
        status=status,
        detail="the gateway failed to handle this request",
        hint="try again; if it keeps failing, give the operators the request id",
        request_id=request_id,
    )


def request_error_of(error: RpcError) -> RequestError:
    """Converts an error that a service answered on the bus to the error of the HTTP request."""
    kind = BadUpstream if error.internal else RPC[error.kind]
    return kind(error.detail, hint=error.hint, code=error.code)
