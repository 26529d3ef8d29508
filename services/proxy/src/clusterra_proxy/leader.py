"""Whose turn it is to watch: of all replicas one, or every event would be found twice and Slurm be asked twice."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from clusterra_runtime.nats.lease import Lease

from clusterra_proxy.requests.in_flight import InFlight


class Leader:
    """Runs what only one replica may run, for as long as it is this one's turn.

    The turn is given back only after all of it has ended.
    """

    def __init__(self) -> None:
        self._elected = asyncio.Event()
        self._deposed = asyncio.Event()
        self._in_flight = InFlight()

    async def lead(self, _lease: Lease) -> None:
        """The work of the lease: it is our turn until this is cancelled."""
        self._deposed.clear()
        self._elected.set()
        try:
            await asyncio.Event().wait()
        finally:
            self._elected.clear()
            self._deposed.set()
            await self._in_flight.wait_until_empty()

    async def while_leading(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run something from the beginning of each of our turns to its end. Raises what it raises."""
        while True:
            await self._elected.wait()
            with self._in_flight:
                await self._run_until_deposed(run)

    async def _run_until_deposed(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task, deposed = asyncio.create_task(run()), asyncio.create_task(self._deposed.wait())
        try:
            await asyncio.wait({task, deposed}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            task.cancel()
            deposed.cancel()
            await asyncio.gather(task, deposed, return_exceptions=True)
