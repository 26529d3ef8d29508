"""A client of Server-Sent Events that also keeps what a browser would not show: comments and `retry`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from clusterra_lab.sse import ServerSentEvent, events


FIRST_SIGN_IN = '"kind":"user.created"'
"""What a login of the test itself causes, before or after the stream is opened."""


@dataclass
class Reader:
    """The events of one stream, as they come."""

    response: aiohttp.ClientResponse
    seen: list[ServerSentEvent] = field(default_factory=list)
    ended: bool = False
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self) -> None:
        async for event in events(self.response):
            if FIRST_SIGN_IN in event.data:
                continue
            self.seen.append(event)
            self._news.set()
        self.ended = True
        self._news.set()

    @property
    def text(self) -> str:
        """All data of the unnamed events."""
        return "".join(event.data for event in self.seen if event.event == "message")

    async def until_text(self, text: str, *, seconds: float = 5.0) -> None:
        async with asyncio.timeout(seconds):
            while self.text != text:
                self._news.clear()
                await self._news.wait()

    async def until(self, count: int, *, seconds: float = 5.0) -> None:
        async with asyncio.timeout(seconds):
            while len(self.seen) < count:
                self._news.clear()
                await self._news.wait()

    async def until_end(self, *, seconds: float = 10.0) -> None:
        async with asyncio.timeout(seconds):
            while not self.ended:
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def reading(
    browser: aiohttp.ClientSession, path: str, *, last_id: int | str | None = None
) -> AsyncIterator[Reader]:
    headers = {} if last_id is None else {"Last-Event-ID": str(last_id)}
    async with browser.get(path, headers=headers, timeout=aiohttp.ClientTimeout(total=None)) as response:
        assert response.status == 200, await response.text()
        assert response.content_type == "text/event-stream"
        assert response.headers["X-Request-Id"]
        reader = Reader(response)
        task = asyncio.create_task(reader.read())
        try:
            yield reader
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
