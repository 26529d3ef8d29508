"""Receivers outside of the product that fail at random."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from clusterra_contracts.rpc.webhooks import ATTEMPT_SECONDS

from event_faults.held import Held

TEST = "cloud.clusterra.webhook.test"
FAULTS = ("refuses", "refuses", "cuts", "takes and cuts", "takes and refuses", "hangs")


@dataclass
class WebhookReceiver:
    """Takes events as Standard Webhooks says: it knows a message that it has got before by its `webhook-id`.

    Some requests fail: the answer is 500, there is none in time, or the connection ends, before or after the message
    was taken.
    """

    chance: random.Random
    held: Held
    faults_left: int
    chance_of_fault: float
    address: str = ""
    faults: Counter[str] = field(default_factory=Counter)
    message_of: dict[str, str] = field(default_factory=dict)
    """Message -> the event in it."""
    mixed: int = 0
    """Messages that came with another event than before."""

    async def answer(self, request: web.Request) -> web.Response:
        """Take a message, or fail."""
        message, event = request.headers["webhook-id"], json.loads(await request.read())
        if event["type"] == TEST:
            return web.Response(status=204)
        fault = self._fault()
        if fault in (None, "takes and cuts", "takes and refuses"):
            self._take(message, event)
        match fault:
            case "refuses" | "takes and refuses":
                return web.Response(status=random.choice((500, 503, 429)))
            case "cuts" | "takes and cuts":
                assert request.transport is not None
                request.transport.close()
            case "hangs":
                await asyncio.sleep(ATTEMPT_SECONDS + 1)
        return web.Response(status=204)

    def _fault(self) -> str | None:
        if not self.faults_left or self.chance.random() >= self.chance_of_fault:
            return None
        self.faults_left -= 1
        fault = self.chance.choice(FAULTS)
        self.faults[fault] += 1
        return fault

    def _take(self, message: str, event: dict[str, str]) -> None:
        if (known := self.message_of.setdefault(message, event["id"])) != event["id"]:
            self.mixed += 1
        self.held.take(known, event["subject"])

    def counts(self) -> dict[str, int]:
        """What else must be 0: messages with two events, and events in two messages."""
        return {"mixed": self.mixed, "in_two_messages": len(self.message_of) - len(set(self.message_of.values()))}


@asynccontextmanager
async def webhook_receiver(name: str, chance: random.Random, faults: int, of: int) -> AsyncIterator[WebhookReceiver]:
    """Listens until the block ends. About `faults` of `of` requests fail."""
    receiver = WebhookReceiver(chance, Held(name), faults, 1.5 * faults / of)
    async with _listening(receiver.answer) as receiver.address:
        yield receiver


@asynccontextmanager
async def _listening(answer: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/hook", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    finally:
        await runner.cleanup()
