"""Counts work in flight, to wait for its end."""

import asyncio


class InFlight:
    """A counter of `with` blocks that are in flight."""

    def __init__(self) -> None:
        self._count = 0
        self._empty = asyncio.Event()
        self._empty.set()

    def __enter__(self) -> None:
        self._count += 1
        self._empty.clear()

    def __exit__(self, *_error: object) -> None:
        self._count -= 1
        if self._count == 0:
            self._empty.set()

    async def wait_until_empty(self) -> None:
        """Wait until nothing is in flight."""
        await self._empty.wait()
