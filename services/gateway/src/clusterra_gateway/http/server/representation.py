"""Serves a JSON answer as the client wants it: only if it has changed, and compressed."""

from collections.abc import Awaitable, Callable
from hashlib import blake2b
from http import HTTPStatus

from aiohttp import ETag, web

from clusterra_gateway.http.answers.sse import EVENT_POSITION

KEPT = ("ETag", "Cache-Control", EVENT_POSITION)
"""The headers of an answer that is not changed."""
COMPRESSED_FROM_BYTES = 1024
"""A smaller answer would hardly become smaller."""


@web.middleware
async def representation(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Gives each JSON answer to a GET an ETag, answers 304 where the client has it already, and compresses.

    An ETag that the handler gave stays. The ETag is weak, because the same answer may be sent with and without
    compression. The handler reads an unchanged answer all the same. A client saves only the transfer.
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
    if len(response.body) >= COMPRESSED_FROM_BYTES:
        response.enable_compression()
        response.headers["Vary"] = "Accept-Encoding"
    return response
