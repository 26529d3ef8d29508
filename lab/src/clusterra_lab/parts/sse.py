"""Reads a Server-Sent Events stream (WHATWG HTML standard) from an aiohttp response."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from aiohttp import ClientResponse


@dataclass(frozen=True)
class ServerSentEvent:
    """One dispatched event; `id` is the last id that the stream has set."""

    event: str
    data: str
    id: str


async def events(response: ClientResponse) -> AsyncIterator[ServerSentEvent]:
    """Iterate over the events of a stream until the server ends it."""
    kind, data, last_id = "message", list[str](), ""
    async for raw in response.content:
        line = raw.decode().rstrip("\r\n")
        if not line:
            if data:
                yield ServerSentEvent(kind, "\n".join(data), last_id)
            kind, data = "message", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                kind = value
            case "data":
                data.append(value)
            case "id":
                last_id = value
            case _:  # a comment or `retry`
                pass
