"""Doing several things at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def at_once() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group whose first failure cancels the others and is raised as itself, not as a group."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
