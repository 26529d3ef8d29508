"""Task groups that raise the error of a task itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def unwrapped_task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Open a task group; the first error cancels the other tasks and is raised as itself, not as an ExceptionGroup."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
