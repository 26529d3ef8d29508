"""Counting what is under way, to wait for its end."""

import asyncio


class InFlight:
    """A block entered with `with` is under way until it is left."""

    def __init__(self) -> None:
        self._count = 0
        self._none = asyncio.Event()
        self._none.set()

    def __enter__(self) -> None:
        self._count += 1
        self._none.clear()

    def __exit__(self, *_error: object) -> None:
        self._count -= 1
        if self._count == 0:
            self._none.set()

    async def wait_until_empty(self) -> None:
        """Wait until nothing is under way."""
        await self._none.wait()
