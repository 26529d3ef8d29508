"""Every failure as an RFC 9457 problem with the request's id: the one table from error types to HTTP statuses."""

import re
import uuid
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import structlog
from aiohttp import web
from clusterra_contracts.rpc.reply import ErrorKind, RpcError
from clusterra_runtime import trace
from clusterra_runtime.nats.bus import BusUnavailable
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.store import StoreUnavailable
from pydantic import BaseModel, ConfigDict

from clusterra_gateway.http.errors import (
    BadUpstream,
    Conflict,
    Forbidden,
    InvalidRequest,
    KeyReused,
    NotFound,
    Refused,
    Rejected,
    TooLarge,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    UnsupportedMedia,
)

log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"
REQUEST_ID = "X-Request-Id"

STATUS: dict[type[Refused], HTTPStatus] = {
    InvalidRequest: HTTPStatus.BAD_REQUEST,
    Unauthenticated: HTTPStatus.UNAUTHORIZED,
    Forbidden: HTTPStatus.FORBIDDEN,
    NotFound: HTTPStatus.NOT_FOUND,
    Conflict: HTTPStatus.CONFLICT,
    TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    UnsupportedMedia: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    KeyReused: HTTPStatus.UNPROCESSABLE_ENTITY,
    Rejected: HTTPStatus.UNPROCESSABLE_ENTITY,
    TooManyRequests: HTTPStatus.TOO_MANY_REQUESTS,
    BadUpstream: HTTPStatus.BAD_GATEWAY,
    Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
}

RPC: dict[ErrorKind, type[Refused]] = {
    "invalid": InvalidRequest,
    "rejected": Rejected,
    "unauthenticated": BadUpstream,  # Slurm does not take the proxy's token: signing in again would not help
    "forbidden": Forbidden,
    "not_found": NotFound,
    "conflict": Conflict,
    "unavailable": Unavailable,
}

RETRY_AFTER_SECONDS = 1

_REQUEST_ID = web.RequestKey("request_id", str)
_CLIENT_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Problem(BaseModel):
    """The body of an error: RFC 9457's members, and ours."""

    model_config = ConfigDict(frozen=True)

    type: str
    """`urn:clusterra:problem:<name>`: what a program decides by; `about:blank` where the status says all."""
    title: str
    status: int
    detail: str
    hint: str | None = None
    """What to do about it."""
    code: int | None = None
    """Slurm's own error number."""
    request_id: str


def refusal_of(error: RpcError) -> Refused:
    """The refusal that tells a caller of an error on the bus."""
    return RPC[error.kind](error.detail, hint=error.hint, code=error.code)


def request_id(request: web.Request) -> str:
    """The request's id: the client's own `X-Request-Id` where it is a plain one, else its trace's."""
    known = request.get(_REQUEST_ID)
    if known is None:
        given = request.headers.get(REQUEST_ID, "")
        known = given if _CLIENT_REQUEST_ID.fullmatch(given) else trace.trace_id() or uuid.uuid4().hex
        request[_REQUEST_ID] = known
    return known


def response_of(request: web.Request, refused: Refused) -> web.Response:
    """The problem document of a refusal."""
    status = STATUS[type(refused)]
    name = re.sub(r"(?<!^)(?=[A-Z])", "-", type(refused).__name__).lower()
    return _response(request, status, name, refused.detail, hint=refused.hint, code=refused.code)


def _response(
    request: web.Request,
    status: HTTPStatus,
    name: str | None,
    detail: str,
    *,
    hint: str = "",
    code: int | None = None,
) -> web.Response:
    problem = Problem(
        type="about:blank" if name is None else f"urn:clusterra:problem:{name}",
        title=status.phrase,
        status=status,
        detail=detail,
        hint=hint or None,
        code=code,
        request_id=request_id(request),
    )
    headers = {}
    if status is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return web.Response(
        status=status, body=problem.model_dump_json(exclude_none=True), content_type=MEDIA_TYPE, headers=headers
    )


def _response_of_http_error(request: web.Request, error: web.HTTPException) -> web.Response:
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return response_of(request, TooLarge("the body is larger than any request may be"))
    response = _response(request, HTTPStatus(error.status), None, f"{request.method} {request.path}: {error.reason}")
    if "Allow" in error.headers:
        response.headers["Allow"] = error.headers["Allow"]
    return response


@web.middleware
async def problems(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Give each request its id and turn what it raises into a problem; an unexpected error tells no internals.

    The id reaches the client in `X-Request-Id` by `stamp`, which also covers streams.
    """
    with trace.extract(request.headers), structlog.contextvars.bound_contextvars(request_id=request_id(request)):
        try:
            return await handler(request)
        except Refused as refused:
            return response_of(request, refused)
        except RpcFailed as failed:
            return response_of(request, refusal_of(failed.error))
        except (StoreUnavailable, BusUnavailable) as error:
            log.warning("part_unavailable", reason=str(error))
            return response_of(request, Unavailable("the gateway's own record does not answer", hint="try again"))
        except web.HTTPError as error:
            return _response_of_http_error(request, error)
        except Exception:
            log.exception("request_failed", method=request.method, path=request.path)
            return _response(
                request,
                HTTPStatus.INTERNAL_SERVER_ERROR,
                "internal",
                "the gateway failed to handle this request",
                hint="try again; if it stays, tell the operators the request id",
            )


async def stamp(request: web.Request, response: web.StreamResponse) -> None:
    """Complete the headers of every response, streams too, before they leave (aiohttp's `on_response_prepare`)."""
    response.headers[REQUEST_ID] = request_id(request)
    response.headers["X-Content-Type-Options"] = "nosniff"  # a job's output must not become a page of our origin
