"""Pages that have read what they show. Playwright's own `networkidle` never comes: it counts the stream of a worker."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from clusterra_lab.machine.process import until

from browser.playwright_api import Page

QUIET_SECONDS = 0.5
"""A page asks nothing for so long when it has all. A read that follows another one comes sooner."""
_LASTING = ("/stream", "worker")


@asynccontextmanager
async def settling(page: Page) -> AsyncIterator[None]:
    """Wait at the end of the block until all answers to what the page asked in it are there."""
    pending: set[Any] = set()
    last = time.monotonic()

    def asked(request: Any) -> None:
        nonlocal last
        last = time.monotonic()
        if not any(each in request.url for each in _LASTING):
            pending.add(request)

    def answered(request: Any) -> None:
        nonlocal last
        last = time.monotonic()
        pending.discard(request)

    events = {"request": asked, "requestfinished": answered, "requestfailed": answered}
    for event, handler in events.items():
        page.on(event, handler)
    try:
        yield
        await until(
            lambda: not pending and time.monotonic() - last >= QUIET_SECONDS,
            seconds=90,
            what=f"answers to {[request.url for request in pending]}",
        )
    finally:
        for event, handler in events.items():
            page.remove_listener(event, handler)
