"""Single flight: callers who ask for the same thing at the same time share one running request."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any


class SingleFlight[K: Hashable, V]:
    """The running requests, one for each key. Nothing is kept: after its end the next caller begins a new request.

    A request runs to its end even when all of its callers have left. So requests that are repeated, each time with
    little patience, get an answer in the end.
    """

    def __init__(self) -> None:
        self._running: dict[K, asyncio.Task[V]] = {}

    async def get(self, key: K, request: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """The result of the running request for this key, or of `request` where none runs. Raises what it raises.

        A caller that is cancelled ends its own wait, and not the request of the others.
        """
        running = self._running.get(key)
        if running is None:
            running = self._running[key] = asyncio.create_task(request())
            running.add_done_callback(partial(self._ended, key))
        return await asyncio.shield(running)

    async def close(self) -> None:
        """Cancel the running requests: those who asked may be gone already."""
        running = list(self._running.values())
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _ended(self, key: K, request: asyncio.Task[V]) -> None:
        del self._running[key]
        if not request.cancelled():
            request.exception()  # nobody may be left who wants to know it
