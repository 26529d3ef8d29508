"""A client of Server-Sent Events that also keeps what a browser would not show: comments and `retry`."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from clusterra_lab.parts.sse import ServerSentEvent, events

FIRST_SIGN_IN = re.compile(r'"id":"[^"]+:2\d{4}:user\.created"')
"""The id of the event (its version is the uid) that a test's own login causes, before or after the stream opens."""


@dataclass
class Reader:
    """The events of one stream, as they come."""

    response: aiohttp.ClientResponse
    first_sign_ins: bool = False
    seen: list[ServerSentEvent] = field(default_factory=list)
    ended: bool = False
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self) -> None:
        async for event in events(self.response):
            if not self.first_sign_ins and FIRST_SIGN_IN.search(event.data):
                continue
            self.seen.append(event)
            self._news.set()
        self.ended = True
        self._news.set()

    @property
    def text(self) -> str:
        """All data of the unnamed events."""
        return "".join(event.data for event in self.seen if event.event == "message")

    async def until_text(self, text: str, *, seconds: float = 30.0) -> None:
        async with asyncio.timeout(seconds):
            while self.text != text:
                self._news.clear()
                await self._news.wait()

    async def until(self, count: int, *, seconds: float = 30.0) -> None:
        async with asyncio.timeout(seconds):
            while len(self.seen) < count:
                self._news.clear()
                await self._news.wait()

    async def until_end(self, *, seconds: float = 30.0) -> None:
        async with asyncio.timeout(seconds):
            while not self.ended:
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def reading(
    browser: aiohttp.ClientSession,
    path: str,
    *,
    last_id: int | str | None = None,
    first_sign_ins: bool = False,
) -> AsyncIterator[Reader]:
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
