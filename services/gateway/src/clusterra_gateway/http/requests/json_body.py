"""Reads the body of a request within the bounds of its route, and JSON before anything checks its values.

A model that is given a few MiB of wrong values collects an error for each: 4 MiB took four seconds of the event loop.
So a body is first parsed as plain JSON, which takes at most a tenth of a second, and refused when it has too many
values.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from clusterra_contracts.bus.envelope import has_more_values
from pydantic_core import from_json

from clusterra_gateway.http.requests.errors import (
    FieldError,
    InvalidRequest,
    Location,
    TooLarge,
    UnsupportedMedia,
    pointer,
)
from clusterra_gateway.http.requests.long_transfers import counted_bytes, hold_bytes, seconds_for

_CHUNK_BYTES = 64 * 1024
_ESCAPED_NUL = b"\\u0000"
"""How JSON writes a NUL character. It has no other way."""


@dataclass(frozen=True, slots=True)
class BodyBounds:
    """The largest body that a route reads: its bytes, and its values, those in lists and objects included."""

    bytes: int
    values: int


MAX_BODY_BYTES = 4 * 1024 * 1024
"""The largest body of any request: the largest job script fits even if every character is escaped."""
SMALL = BodyBounds(64 * 1024, 1000)
"""For a few fields."""

JSON_TYPES = ("application/json",)


async def read_json(request: web.Request, bounds: BodyBounds, types: Sequence[str] = JSON_TYPES) -> bytes:
    """Return a body of one of these media types, within its bounds.

    Raises InvalidRequest, also for a text with a NUL character, TooLarge, UnsupportedMedia.
    """
    if request.content_type not in types:
        raise UnsupportedMedia("the body must be JSON", hint=f"send it with `Content-Type: {types[0]}`")
    content = await read_within(request, bounds.bytes)
    try:
        values = from_json(content, cache_strings="none")
    except ValueError:
        # The model says where the JSON is wrong.
        return content
    if has_more_values(values, bounds.values):
        raise InvalidRequest(f"the body has more than {bounds.values} values", hint="send shorter lists and objects")
    if _ESCAPED_NUL in content and (at := location_of_nul(values)) is not None:
        name = ".".join(map(str, at)) or "the body"
        raise InvalidRequest(
            f"{name} has a NUL character",
            hint="leave it out: Slurm would cut the text there",
            errors=(FieldError("body", pointer(at), "it has a NUL character"),),
        )
    return content


def plain(content: bytes) -> Any:
    """The values of JSON; None of something else."""
    try:
        return from_json(content, cache_strings="none")
    except ValueError:
        return None


def location_of_nul(content: Any) -> Location | None:
    """Return where the first text with a NUL character is in parsed JSON, or the object that has it in a name."""
    found: list[tuple[Location, Any]] = [((), content)]
    while found:
        at, each = found.pop()
        if isinstance(each, str):
            if "\0" in each:
                return at
        elif isinstance(each, dict):
            if any("\0" in name for name in each):
                return at
            found.extend(((*at, name), value) for name, value in reversed(each.items()))
        elif isinstance(each, list):
            found.extend(((*at, index), each[index]) for index in reversed(range(len(each))))
    return None


async def read_within(request: web.Request, most: int) -> bytes:
    """Return a body of at most so many bytes, which counts while it is on its way, and until its request has ended.

    Raises TooLarge, TooManyRequests, and HTTPRequestTimeout for a client that sends more slowly than it must.
    """
    if (request.content_length or 0) > most:
        raise _too_large(most)
    size = most if request.content_length is None else request.content_length
    with counted_bytes(request, size):
        try:
            async with asyncio.timeout(seconds_for(size)):
                content = await _read(request, most)
        except TimeoutError:
            raise web.HTTPRequestTimeout(reason="the body comes too slowly") from None
    # It counted as at least so many bytes until now, so there is room for it.
    hold_bytes(request, len(content))
    return content


async def _read(request: web.Request, most: int) -> bytes:
    content = bytearray()
    async for chunk in request.content.iter_chunked(_CHUNK_BYTES):
        content += chunk
        if len(content) > most:
            raise _too_large(most)
    return bytes(content)


def _too_large(most: int) -> TooLarge:
    return TooLarge("the body is larger than this request allows", hint=f"send a body of at most {most // 1024} KiB")
