"""Hedged requests: repeats a read without an answer, because the replica that received it may be slow."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from clusterra_runtime.nats.rpc import RpcFailed
from prometheus_client import Counter

REPEATED = Counter("clusterra_gateway_repeated_reads_total", "Reads that were sent again because no answer had come")


async def repeated[T](read: Callable[[], Awaitable[T]], again: Callable[[], Awaitable[T]], after: Sequence[float]) -> T:
    """Return the first answer to a read, which is sent again after each of these times without an answer, in seconds.

    Only the first attempt may say that nobody answers: then it raises RpcFailed, and so the whole takes no longer than
    it. Any other error of an attempt is an answer.
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
