"""Leader election: of all replicas, only the holder of the lease watches the clusters and keeps their placeholders.

Two watching replicas would publish every event twice and poll Slurm twice. The lease is a key in a NATS KV bucket
(`clusterra_runtime.nats.lease`), which expires when its holder stops renewing it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from clusterra_runtime.nats.lease import Lease

from clusterra_proxy.requests.in_flight import InFlight


class Leader:
    """Runs the leader's work while this replica holds the lease, which is released only after all work has ended."""

    def __init__(self) -> None:
        self._elected = asyncio.Event()
        self._deposed = asyncio.Event()
        self._in_flight = InFlight()

    async def lead(self, _lease: Lease) -> None:
        """Lead until cancelled. This is the work of the lease."""
        self._deposed.clear()
        self._elected.set()
        try:
            await asyncio.Event().wait()
        finally:
            self._elected.clear()
            self._deposed.set()
            await self._in_flight.wait_until_empty()

    async def while_leading(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run something from each election until the lease is lost, forever. Raises what it raises."""
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
