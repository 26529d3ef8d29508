"""Whose turn it is to watch: of all replicas one, or every event would be found twice and Slurm be asked twice."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from clusterra_runtime.nats.lease import Lease

from clusterra_proxy.requests.in_flight import Running


class Turn:
    """Runs what only one replica may run, for as long as it is this one's turn.

    The turn is given back only after all of it has ended.
    """

    def __init__(self) -> None:
        self._begun = asyncio.Event()
        self._over = asyncio.Event()
        self._running = Running()

    async def hold(self, _lease: Lease) -> None:
        """The work of the lease: it is our turn until this is cancelled."""
        self._over.clear()
        self._begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self._begun.clear()
            self._over.set()
            await self._running.wait_for_none()

    async def during(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run something from the beginning of each of our turns to its end. Raises what it raises."""
        while True:
            await self._begun.wait()
            with self._running:
                await self._once(run)

    async def _once(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task, over = asyncio.create_task(run()), asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait({task, over}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            task.cancel()
            over.cancel()
            await asyncio.gather(task, over, return_exceptions=True)
