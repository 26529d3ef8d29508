"""A receiver of webhooks on this machine: `/take` takes everything, `/refuse` answers 503."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from clusterra_lab.machine.ports import free_port


@dataclass(frozen=True, slots=True)
class Received:
    """One request: its headers, with names in lower case, and its body."""

    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        """The id of the message."""
        return self.headers["webhook-id"]


@dataclass
class Receiver:
    """What it has received, in the order of arrival."""

    address: str
    refuses: bool = False
    """Whether `/take` answers 503, too."""
    received: list[Received] = field(default_factory=list)
    """What it has taken."""

    async def answer(self, request: web.Request) -> web.Response:
        """Take a message, or refuse it."""
        got = Received({name.lower(): value for name, value in request.headers.items()}, await request.read())
        if self.refuses or request.path != "/take":
            return web.Response(status=503)
        self.received.append(got)
        return web.Response(status=204)


@asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    """Listens as long as the block is open."""
    port = free_port()
    receiving, app = Receiver(f"http://127.0.0.1:{port}"), web.Application()
    app.router.add_post("/{path}", receiving.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield receiving
    finally:
        await runner.cleanup()
