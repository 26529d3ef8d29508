"""Asking again while a service is too busy to answer."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from clusterra_lab.parts.user import UnavailableError

UNAVAILABLE_SECONDS = 60.0
"""slurmctld was seen to be busy for ten seconds while other tests ran beside."""


async def patiently[T](ask: Callable[[], Awaitable[T]]) -> T:
    """Ask every second until there is an answer, as the hint of a 503 says. Raises UnavailableError in the end.

    What is asked may have been done already: a submit needs a key.
    """
    deadline = time.monotonic() + UNAVAILABLE_SECONDS
    while True:
        try:
            return await ask()
        except UnavailableError:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(1.0)
