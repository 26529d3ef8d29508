"""Around every handler: ids of requests, problems in place of errors, headers, CORS, ETags and compression."""

import asyncio
import re
import time
import uuid
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from http import HTTPStatus

import structlog
from aiohttp import ETag, web
from clusterra_runtime import trace, tracing
from clusterra_runtime.metrics import LATENCY_BUCKETS_SECONDS
from clusterra_runtime.nats.bus import BusUnavailable
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.store import StoreUnavailable
from clusterra_runtime.tracing import SpanKind
from prometheus_client import Counter, Histogram

from clusterra_gateway.http.answers.problems import (
    REQUEST_ID,
    bare_problem,
    internal_problem,
    problem_of,
    request_error_of,
)
from clusterra_gateway.http.answers.responses import EXTRA_HEADERS
from clusterra_gateway.http.answers.sse import EVENT_POSITION
from clusterra_gateway.http.answers.streams import deliver
from clusterra_gateway.http.requests.errors import RangeNotSatisfiable, RequestError, TooLarge, Unavailable
from clusterra_gateway.http.requests.json_body import MAX_BODY_BYTES

REQUESTS = Counter(
    "clusterra_http_requests_total", "Requests by route and status; a stream counts at its end", ("route", "code")
)
SECONDS = Histogram(
    "clusterra_http_seconds",
    "From the arrival of a request to the end of its response, by route and status; streams are not counted",
    ("route", "code"),
    buckets=LATENCY_BUCKETS_SECONDS,
)

log = structlog.get_logger()

type Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

LEAVING = web.AppKey("leaving", asyncio.Event)
"""Set while the process still serves but is about to stop."""

STREAMS = web.AppKey("streams", frozenset[str])
"""The names of the routes whose responses have no end."""


RENEWED_SESSION = web.RequestKey("renewed_session", str)
"""The session cookie, renewed: for the response, unless that sets cookies itself."""

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",  # a job's output must not become a page of our origin
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""No answer of the API is a page: a browser that is led to one loads and shows nothing from it."""

ENCRYPTED = web.AppKey("encrypted", bool)
"""Whether browsers reach the gateway over HTTPS only."""

_REQUEST_ID = web.RequestKey("request_id", str)
_CLIENT_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


def request_id(request: web.Request) -> str:
    """The id of the request: the client's own `X-Request-Id` where it is a plain one, otherwise that of its trace."""
    known = request.get(_REQUEST_ID)
    if known is None:
        given = request.headers.get(REQUEST_ID, "")
        known = given if _CLIENT_REQUEST_ID.fullmatch(given) else trace.trace_id() or uuid.uuid4().hex
        request[_REQUEST_ID] = known
    return known


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Gives the request its id, and turns what its handler raises into a problem."""
    with (
        tracing.entry(request.headers, _span_name(request), SpanKind.SERVER, _span_attributes(request)) as span,
        structlog.contextvars.bound_contextvars(request_id=request_id(request)),
    ):
        began = time.perf_counter()
        response = await _answer(request, handler)
        route, status = request.match_info.route.name or "unknown", str(response.status)
        REQUESTS.labels(route, status).inc()
        if route not in request.app[STREAMS]:
            SECONDS.labels(route, status).observe(time.perf_counter() - began)
        span.set_attribute("http.response.status_code", response.status)
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            tracing.failed(span, str(response.status))
        return response


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await deliver(request, await handler(request))
    except RequestError as error:
        return _response(request, error)
    except RpcFailed as failed:
        return _response(request, request_error_of(failed.error))
    except (StoreUnavailable, BusUnavailable) as error:
        log.warning("part_unavailable", reason=str(error))
        return _response(request, Unavailable("a part of the gateway does not answer now", hint="try again"))
    except web.HTTPRequestEntityTooLarge:
        limit = f"send a body of at most {MAX_BODY_BYTES // 1024**2} MiB"
        return _response(request, TooLarge("the body is larger than allowed for any request", hint=limit))
    except web.HTTPError as error:
        return _response_of_http_error(request, error)
    except Exception:
        log.exception("request_failed", method=request.method, path=request.path)
        return internal_problem(request_id(request)).response()


def _route(request: web.Request) -> str:
    """The path's template: a path has ids, of which there are many."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else ""


def _span_name(request: web.Request) -> str:
    return f"{request.method} {_route(request)}".rstrip()


def _span_attributes(request: web.Request) -> tracing.Attributes:
    # Neither the query nor the headers: either may hold what only the caller may know.
    attributes = {"http.request.method": request.method, "http.route": _route(request), "url.scheme": request.scheme}
    if cluster := request.match_info.get("cluster_id"):
        attributes[tracing.CLUSTER] = cluster
    return attributes


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Completes the headers of every response, streams too, before they are sent (aiohttp's `on_response_prepare`)."""
    response.headers[REQUEST_ID] = request_id(request)
    response.headers.update(SECURITY_HEADERS)
    add_cross_origin_headers(request, response)
    if request.app[ENCRYPTED]:
        response.headers["Strict-Transport-Security"] = "max-age=31536000"
    response.headers.update(request.get(EXTRA_HEADERS, {}))
    if RENEWED_SESSION in request:
        response.headers.setdefault("Set-Cookie", request[RENEWED_SESSION])
    if request.app[LEAVING].is_set():
        # The client would send its next request on this connection, perhaps just when the process closes it.
        response.headers["Connection"] = "close"
        response.force_close()


def _response(request: web.Request, error: RequestError) -> web.Response:
    response = problem_of(error, request_id(request)).response(error.retry_after_seconds)
    if isinstance(error, RangeNotSatisfiable):
        response.headers["Content-Range"] = f"bytes */{error.size}"
    return response


def _response_of_http_error(request: web.Request, error: web.HTTPException) -> web.Response:
    detail = f"{request.method} {request.path}: {error.reason}"
    response = bare_problem(error.status, detail, request_id(request)).response()
    if "Allow" in error.headers:
        response.headers["Allow"] = error.headers["Allow"]
    return response


ORIGINS = web.AppKey("origins", frozenset[str])
"""The other origins whose pages may read answers. Never all: the answers are somebody's own."""
PREFLIGHT_SECONDS = 600
METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
REQUEST_HEADERS = "Authorization, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID, Range, X-Request-Id"
READABLE_HEADERS = (
    "Accept-Ranges, Content-Range, ETag, Event-Position, Idempotent-Replayed, Location, RateLimit-Limit,"
    " RateLimit-Remaining, RateLimit-Reset, Retry-After, X-Request-Id"
)


@web.middleware
async def preflight(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answers the question that a browser asks before a request of another origin's page."""
    if request.method != "OPTIONS" or "Access-Control-Request-Method" not in request.headers or not _allowed(request):
        return await handler(request)
    headers = {
        "Access-Control-Allow-Methods": METHODS,
        "Access-Control-Allow-Headers": REQUEST_HEADERS,
        "Access-Control-Max-Age": str(PREFLIGHT_SECONDS),
    }
    return web.Response(status=HTTPStatus.NO_CONTENT, headers=headers)


def add_cross_origin_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Lets a page of a configured origin read the answer. Caches keep the answers of origins apart."""
    if not request.app[ORIGINS]:
        return
    response.headers.add("Vary", "Origin")
    if _allowed(request):
        response.headers["Access-Control-Allow-Origin"] = request.headers["Origin"]
        response.headers["Access-Control-Allow-Credentials"] = "true"
        response.headers["Access-Control-Expose-Headers"] = READABLE_HEADERS


def _allowed(request: web.Request) -> bool:
    return request.headers.get("Origin") in request.app[ORIGINS]


KEPT = ("ETag", "Cache-Control", EVENT_POSITION)
"""The headers of an answer that is not changed."""
COMPRESSED_FROM_BYTES = 1024
"""A smaller answer would hardly become smaller."""


@web.middleware
async def representation(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Gives each JSON answer to a GET an ETag, answers 304 where the client has it already, and compresses.

    An ETag that the handler gave stays, and so does its compression. The ETag is weak, because the same answer may be
    sent with and without compression. The handler reads an unchanged answer all the same. A client saves only the
    transfer.
    """
    response = await handler(request)
    if not isinstance(response, web.Response) or not isinstance(response.body, bytes):
        return response
    if response.content_type != "application/json" and not response.content_type.endswith("+json"):
        return response
    if request.method in ("GET", "HEAD") and response.status == HTTPStatus.OK:
        if response.etag is None:
            response.etag = ETag(blake2b(response.body, digest_size=16).hexdigest(), is_weak=True)
        if any(known.value in (response.etag.value, "*") for known in request.if_none_match or ()):
            headers = {name: response.headers[name] for name in KEPT if name in response.headers}
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    if len(response.body) >= COMPRESSED_FROM_BYTES and "Content-Encoding" not in response.headers:
        response.enable_compression()
        response.headers["Vary"] = "Accept-Encoding"
    return response
