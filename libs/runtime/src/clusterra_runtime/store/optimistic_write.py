"""Optimistic concurrency: read, decide, write only if nothing has changed meanwhile, and begin again if it has."""

from collections.abc import Awaitable, Callable

from clusterra_runtime.backoff import Backoff, retry
from clusterra_runtime.store.store import ConditionFailed, StoreError, TransactionCancelled

ATTEMPTS = 5
"""Enough for several people who change the same item at a time: in each round of attempts, one writer succeeds."""
FIRST_PAUSE_SECONDS = 0.01
LONGEST_PAUSE_SECONDS = 0.2


class Overtaken(StoreError):
    """Another writer was faster. For attempts that learn this in another way than by a refused write."""


LOST: tuple[type[StoreError], ...] = (ConditionFailed, TransactionCancelled, Overtaken)


async def write_optimistically[T](
    attempt: Callable[[], Awaitable[T]],
    *,
    contended: Exception | None = None,
    attempts: int = ATTEMPTS,
    on: tuple[type[StoreError], ...] = LOST,
) -> T:
    """Returns what `attempt` returns: it reads, decides, and writes on the condition that nothing was changed since.

    The errors `on` mean that another writer was faster. `attempt` is then called again after a short pause with jitter,
    so it must read anew each time. After the last of `attempts`, `contended` is raised, or without it the last error.
    Every other error is raised at once.
    """
    pauses = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
    try:
        return await retry(attempt, pauses, on=lambda error: isinstance(error, on), attempts=attempts)
    except on as lost:
        if contended is None:
            raise
        raise contended from lost
