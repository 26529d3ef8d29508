"""Reads on the bus that are sent again while no answer comes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from clusterra_runtime.nats.rpc import RpcFailed
from prometheus_client import Counter

REPEATED = Counter("clusterra_gateway_repeated_reads_total", "Reads that were sent again because no answer had come")


async def repeated[T](read: Callable[[], Awaitable[T]], again: Callable[[], Awaitable[T]], after: Sequence[float]) -> T:
    """Return the first answer to a read, which is sent `again` each time that so many seconds passed without one.

    A repetition that nobody answers is ignored. Where nobody answers the first attempt, RpcFailed is raised: so the
    whole takes no longer than the first attempt. Any other error of an attempt is an answer.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    first = asyncio.ensure_future(read())
    attempts = {first}
    pauses = list(after)
    try:
        while True:
            timeout = began + pauses[0] - loop.time() if pauses else None
            done, attempts = await asyncio.wait(attempts, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            for attempt in done:
                if attempt is first or not _unavailable(attempt):
                    return attempt.result()
            if not done:
                REPEATED.inc()
                attempts.add(asyncio.ensure_future(again()))
                pauses.pop(0)
    finally:
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)


def _unavailable[T](attempt: asyncio.Future[T]) -> bool:
    error = attempt.exception()
    return isinstance(error, RpcFailed) and error.error.kind == "unavailable"
