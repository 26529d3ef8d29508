"""A stand-in for incoming webhooks of Slack, as strict as Slack is documented to be."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

MARKUP = frozenset("<>")


def problem_of(message: Any) -> str:
    """What Slack does not take of a message; empty for one that it takes."""
    if not isinstance(message, dict) or not message.get("text"):
        return "no_text"
    blocks = message.get("blocks", [])
    if not 1 <= len(blocks) <= 50:
        return "invalid_blocks"
    plain = [message["text"]]
    for block in blocks:
        elements = block["elements"] if block["type"] == "context" else [block["text"]]
        most = 150 if block["type"] == "header" else 3000
        if block["type"] not in {"header", "section", "context"} or not 1 <= len(elements) <= 10:
            return "invalid_blocks"
        for element in elements:
            length = len(element["text"].encode("utf-16-le", "surrogatepass")) // 2
            if element["type"] != "plain_text" or not 1 <= length <= most:
                return "invalid_blocks"
            plain.append(element["text"])
    # Slack would take these: they could be a mention or a link.
    if message.get("link_names") or any(MARKUP & set(each) for each in plain):
        return "markup"
    return "msg_blocks_too_long" if sum(map(len, plain)) > 13_000 else ""


@dataclass
class Slack:
    url: str = ""
    messages: list[dict[str, Any]] = field(default_factory=list)
    """Those that were taken."""
    problems: list[str] = field(default_factory=list)
    asked_at: list[float] = field(default_factory=list)
    answers: list[web.Response] = field(default_factory=list)
    """What the next requests get instead."""


@asynccontextmanager
async def slack() -> AsyncIterator[Slack]:
    """An incoming webhook on loopback."""
    found = Slack()

    async def handle(request: web.Request) -> web.Response:
        found.asked_at.append(time.monotonic())
        if found.answers:
            return found.answers.pop(0)
        message = json.loads(await request.read())
        if problem := problem_of(message):
            found.problems.append(problem)
            return web.Response(status=400, text=problem)
        found.messages.append(message)
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_post("/services/T0/B0/secret", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        found.url = f"http://127.0.0.1:{runner.addresses[0][1]}/services/T0/B0/secret"
        yield found
    finally:
        await runner.cleanup()
