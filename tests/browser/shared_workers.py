"""What shared workers do, which Playwright itself does not report: Chromium's own protocol does.

Requests that a worker sends before this has attached to it are not seen. The page's policy refuses foreign ones anyway.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import count
from typing import Any

from browser.playwright_api import Context, playwright_error

type Told = Callable[[str, dict[str, Any]], None]
"""Takes an event of the protocol, such as `Network.responseReceived`, and its parameters."""
_ENABLED = ("Runtime.enable", "Network.enable")


async def watch_shared_workers(context: Context, tell: Told) -> None:
    """Tell the events of all shared workers that pages of this context start."""
    session = await context.browser.new_browser_cdp_session()
    page = await context.new_page()
    own = await context.new_cdp_session(page)
    belongs_to = (await own.send("Target.getTargetInfo"))["targetInfo"].get("browserContextId")
    await page.close()
    numbers, attaching = count(1), set[asyncio.Task[None]]()

    async def ask(attached: str, *methods: str) -> None:
        # A worker may end before.
        with suppress(playwright_error()):
            for method in methods:
                message = json.dumps({"id": next(numbers), "method": method})
                await session.send("Target.sendMessageToTarget", {"sessionId": attached, "message": message})

    async def attach(target: str) -> None:
        with suppress(playwright_error()):
            told = await session.send("Target.attachToTarget", {"targetId": target, "flatten": False})
            await ask(told["sessionId"], *_ENABLED)

    def begin(work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        attaching.add(task)
        task.add_done_callback(attaching.discard)

    def created(event: dict[str, Any]) -> None:
        target = event["targetInfo"]
        if target["type"] == "shared_worker" and target.get("browserContextId") == belongs_to:
            begin(attach(target["targetId"]))

    def received(event: dict[str, Any]) -> None:
        message = json.loads(event["message"])
        if message.get("method") == "Inspector.targetReloadedAfterCrash":
            # A worker that is started again while somebody is attached waits for them.
            begin(ask(event["sessionId"], *_ENABLED, "Runtime.runIfWaitingForDebugger"))
        if "method" in message:
            tell(message["method"], message["params"])

    session.on("Target.targetCreated", created)
    session.on("Target.receivedMessageFromTarget", received)
    await session.send("Target.setDiscoverTargets", {"discover": True})
