"""Turns errors into RFC 9457 problems: the tables from errors to HTTP statuses, and the problem document."""

import re
from http import HTTPStatus
from typing import Any

from aiohttp import web
from clusterra_contracts.rpc.reply import ErrorKind, RpcError
from pydantic import BaseModel, ConfigDict

from clusterra_gateway.http.requests import errors
from clusterra_gateway.http.requests.errors import FieldError, RequestError

MEDIA_TYPE = "application/problem+json"
REQUEST_ID = "X-Request-Id"
"""The header with the id of a request, in the request and in its response."""

STATUS: dict[type[RequestError], HTTPStatus] = {
    errors.InvalidRequest: HTTPStatus.BAD_REQUEST,
    errors.Unauthenticated: HTTPStatus.UNAUTHORIZED,
    errors.Forbidden: HTTPStatus.FORBIDDEN,
    errors.NotFound: HTTPStatus.NOT_FOUND,
    errors.Conflict: HTTPStatus.CONFLICT,
    errors.TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.RangeNotSatisfiable: HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
    errors.UnsupportedMedia: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    errors.KeyReused: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.InFlight: HTTPStatus.CONFLICT,
    errors.Rejected: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.NotDelivered: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.QuotaExceeded: HTTPStatus.FORBIDDEN,
    errors.ConfirmationRequired: HTTPStatus.CONFLICT,
    errors.TooManyRequests: HTTPStatus.TOO_MANY_REQUESTS,
    errors.BadUpstream: HTTPStatus.BAD_GATEWAY,
    errors.Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.OutcomeUnknown: HTTPStatus.GATEWAY_TIMEOUT,
}

RPC: dict[ErrorKind, type[RequestError]] = {
    "invalid": errors.InvalidRequest,
    "rejected": errors.Rejected,
    "unauthenticated": errors.BadUpstream,  # Slurm does not accept the proxy's token: signing in again would not help
    "forbidden": errors.Forbidden,
    "not_found": errors.NotFound,
    "conflict": errors.Conflict,
    "unavailable": errors.Unavailable,
}
"""Maps each kind of error that a service answers on the bus to the error of the HTTP request."""

RETRY_AFTER_SECONDS = 1

TYPES = "/v1/problems"
"""Below this path, the gateway describes each type of problem."""
NOTHING_HERE = "all paths begin with /v1: /v1/docs shows them, and /v1/openapi.json describes them"
"""The hint for a path that does not exist."""
INTERNAL = "internal"
"""The name of the type of an unexpected error."""


class ProblemField(BaseModel):
    """What is wrong with one field of the request."""

    model_config = ConfigDict(frozen=True)

    detail: str
    pointer: str | None = None
    """A JSON pointer into the body, such as `#/job/nodes`."""
    parameter: str | None = None
    """The name of a query parameter."""


class Problem(BaseModel):
    """The body of an error: the members of RFC 9457, and our own `hint`, `code`, `errors` and `request_id`."""

    model_config = ConfigDict(frozen=True)

    type: str
    """`/v1/problems/<name>`, for programs to decide by, and a page that describes it; `about:blank` where the status
    says everything."""
    title: str
    status: int
    detail: str
    instance: str
    """`urn:clusterra:request:<id>`: this occurrence, by the id of the request."""
    hint: str | None = None
    """What the caller can do about it."""
    code: int | None = None
    """Slurm's own error number."""
    errors: tuple[ProblemField, ...] | None = None
    """The fields of the request that are wrong, where these are known: at most 20."""
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
    return _problem(
        STATUS[type(error)],
        error.detail,
        request_id,
        type=f"{TYPES}/{type_name(type(error))}",
        hint=error.hint or None,
        code=error.code,
        errors=tuple(map(_field, error.errors)) or None,
    )


def type_name(error: type[RequestError]) -> str:
    """The name of an error's type in URLs: `InvalidRequest` is `invalid-request`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", error.__name__).lower()


def _field(error: FieldError) -> ProblemField:
    if error.where == "body":
        return ProblemField(detail=error.detail, pointer=error.place)
    return ProblemField(detail=error.detail, parameter=error.place)


def bare_problem(status: int, detail: str, request_id: str) -> Problem:
    """The problem document of an error that its HTTP status describes completely."""
    hint = NOTHING_HERE if status == HTTPStatus.NOT_FOUND else None
    return _problem(HTTPStatus(status), detail, request_id, type="about:blank", hint=hint)


def internal_problem(request_id: str) -> Problem:
    """The problem document of an unexpected error. It reveals no internals."""
    return _problem(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "the gateway failed to handle this request",
        request_id,
        type=f"{TYPES}/{INTERNAL}",
        hint="try again; if it keeps failing, give the operators the request id",
    )


def _problem(status: HTTPStatus, detail: str, request_id: str, **others: Any) -> Problem:
    instance = f"urn:clusterra:request:{request_id}"
    named = {"title": status.phrase, "status": status, "instance": instance, "request_id": request_id}
    return Problem(detail=detail, **named, **others)


def request_error_of(error: RpcError) -> RequestError:
    """Converts an error that a service answered on the bus to the error of the HTTP request."""
    kind = errors.BadUpstream if error.internal else RPC[error.kind]
    return kind(error.detail, hint=error.hint, code=error.code)
