"""A process with many clients of the live stream of events: `python -m events.followers`.

It must take little of the machine that it measures. So it has no HTTP client: it speaks HTTP/1.0, whose bodies have no
frames, and notes of each piece of a body when it came and how many events began in it. All clients are told the same
events in the same order, so that the number of an event follows from how many came before.
"""

import asyncio
import time
from array import array
from collections.abc import Awaitable, Callable

from pydantic import BaseModel
from yarl import URL

from events.load import Published, Told, serve, summary

EVENT = b"\ndata: "
CONNECTING = 50
"""How many connect at the same time."""


class Followers(BaseModel):
    """Who follows what."""

    urls: tuple[str, ...]
    """Streams, each with an equal share of the clients."""
    keys: tuple[str, ...]
    """The clients' keys, an equal share each."""
    clients: int


class Client(asyncio.Protocol):
    """One client, and what it was told."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._rest = b""
        self.opened = asyncio.get_running_loop().create_future()
        self.at = array("d")
        self.counts = array("I")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.opened.done():
            # The head of the answer, and the first line of the stream.
            self._rest += data
            if b"\r\n\r\n" in self._rest and b"retry: " in self._rest:
                assert b" 200 " in self._rest.split(b"\r\n", 1)[0], self._rest
                self.opened.set_result(None)
                self._rest = self._rest[-len(EVENT) + 1 :]
            return
        if count := (self._rest + data).count(EVENT):
            self.at.append(time.monotonic())
            self.counts.append(count)
        self._rest = data[-len(EVENT) + 1 :]

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(ConnectionError(self._rest.decode(errors="replace")))

    def latencies(self, published: Published) -> list[float]:
        """The seconds of each event."""
        found, number = list[float](), 0
        for at, count in zip(self.at, self.counts, strict=True):
            found += [at - each for each in published.at[number : number + count]]
            number += count
        return found


async def run(load: Followers, published: Callable[[], Awaitable[Published]]) -> Told:
    """Open all streams, and follow them to the end."""
    places, clients = asyncio.Semaphore(CONNECTING), list[Client]()

    async def opened(number: int) -> asyncio.Transport:
        url = URL(load.urls[number % len(load.urls)])
        key = load.keys[(number // len(load.urls)) % len(load.keys)]
        request = f"GET {url.path} HTTP/1.0\r\nHost: {url.authority}\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
        async with places:
            transport, client = await asyncio.get_running_loop().create_connection(
                lambda: Client(request), url.host or "", url.port or 80
            )
            clients.append(client)
            await client.opened
        return transport

    transports = await asyncio.gather(*(opened(number) for number in range(load.clients)))
    known = await published()
    for transport in transports:
        transport.abort()
    latencies = [each for client in clients for each in client.latencies(known)]
    return summary(latencies, load.clients * len(known.at))


if __name__ == "__main__":
    serve(Followers, run)
