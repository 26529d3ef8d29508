"""A client of Server-Sent Events that collects the events of one stream."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from clusterra_lab.parts.sse import ServerSentEvent, events

FIRST_SIGN_IN = re.compile(r'"id":"[^"]+:[0-9a-f]{16}:user\.created"')
"""The id of the event of a person's first sign-in; its version is random.

A test's own login causes one, before or after the stream opens.
"""


@dataclass
class Reader:
    """The events of one stream, in the order of their arrival."""

    response: aiohttp.ClientResponse
    first_sign_ins: bool = False
    """Keeps the events of first sign-ins."""
    events: list[ServerSentEvent] = field(default_factory=list)
    ended: bool = False
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self) -> None:
        async for event in events(self.response):
            if not self.first_sign_ins and FIRST_SIGN_IN.search(event.data):
                continue
            self.events.append(event)
            self._changed.set()
        self.ended = True
        self._changed.set()

    @property
    def text(self) -> str:
        """The data of all unnamed events."""
        return "".join(event.data for event in self.events if event.event == "message")

    async def until_text(self, text: str) -> None:
        """Waits until the data of the unnamed events is this text."""
        await self._until(lambda: self.text == text)

    async def until_events(self, count: int) -> None:
        """Waits until this number of events has arrived."""
        await self._until(lambda: len(self.events) >= count)

    async def until_end(self) -> None:
        """Waits until the server has ended the stream."""
        await self._until(lambda: self.ended)

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(90):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def sse_reader(
    browser: aiohttp.ClientSession,
    path: str,
    *,
    last_id: int | str | None = None,
    first_sign_ins: bool = False,
) -> AsyncIterator[Reader]:
    """Reads the stream at `path` until the block ends; with `last_id`, from behind that event on."""
    headers = {} if last_id is None else {"Last-Event-ID": str(last_id)}
    async with browser.get(path, headers=headers, timeout=aiohttp.ClientTimeout(total=None)) as response:
        assert response.status == 200, await response.text()
        assert response.content_type == "text/event-stream"
        assert response.headers["X-Request-Id"]
        reader = Reader(response, first_sign_ins)
        task = asyncio.create_task(reader.read())
        try:
            yield reader
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
