"""CORS (the Fetch standard): pages of configured origins, such as a console's, may use the API with its cookie."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web

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
async def preflight(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
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
