"""Repeats a request while a service is unavailable."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from clusterra_lab.parts.user import UnavailableError

UNAVAILABLE_SECONDS = 90.0
"""Time limit for the repetitions. With other tests running, slurmctld has been busy for up to ten seconds,
and an unknown outcome of a submit settles within 52 s."""


async def retry_while_unavailable[T](request: Callable[[], Awaitable[T]]) -> T:
    """Send a request every second until it is answered, as the hint of a 503 says. Raises UnavailableError.

    An unanswered request may have been carried out, so a submit needs an idempotency key.
    """
    deadline = time.monotonic() + UNAVAILABLE_SECONDS
    while True:
        try:
            return await request()
        except UnavailableError:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(1.0)
