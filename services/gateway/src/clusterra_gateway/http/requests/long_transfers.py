"""Transfers that last as long as a client takes to send or to read: counted for their caller, at a minimum throughput.

A body holds memory until its request has ended, and an answer until its last byte is read.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass

from aiohttp import web

LEAST_BYTES_PER_SECOND = 16 * 1024
"""The minimum throughput of a client. Only the time counts in which the gateway waits for it."""
BEHIND_SECONDS = 20.0
"""How far a client may fall behind the minimum throughput. One that does nothing would hold the buffers forever."""
LARGE_BYTES = 64 * 1024
"""From this size on, a body, or an answer that is made already, is counted."""
PLACE_BYTES = 512 * 1024
"""A large body or answer counts as one more stream for each of these, and as MAX_WEIGHT streams at most."""
MAX_WEIGHT = 8


@dataclass(frozen=True, slots=True)
class LongTransfers:
    """Counts the transfers of a caller that last as long as their client takes."""

    opened: Callable[[int], AbstractContextManager[None]]
    """Counts a transfer as so many streams until the block ends. Raises TooManyRequests."""
    held: ExitStack
    """What counts until the handler has ended."""


LONG_TRANSFERS = web.RequestKey("long-transfers", LongTransfers)
"""Set for a request whose caller is known."""


@contextmanager
def counting(request: web.Request, opened: Callable[[int], AbstractContextManager[None]]) -> Iterator[None]:
    """Counts the transfers of a request. The block is its handler. `opened` is that of `LongTransfers`."""
    with ExitStack() as held:
        request[LONG_TRANSFERS] = LongTransfers(opened, held)
        yield


def counted_transfer(request: web.Request, weight: int = 1) -> AbstractContextManager[None]:
    """Counts a long transfer, or its handler, as `weight` streams until the block ends. Raises TooManyRequests."""
    counted = request.get(LONG_TRANSFERS)
    return nullcontext() if counted is None else counted.opened(weight)


def counted_bytes(request: web.Request, size: int) -> AbstractContextManager[None]:
    """Counts so many bytes that are held, if they are many. Raises TooManyRequests."""
    return nullcontext() if size < LARGE_BYTES else counted_transfer(request, min(1 + size // PLACE_BYTES, MAX_WEIGHT))


def hold_bytes(request: web.Request, size: int) -> None:
    """Counts so many bytes, if they are many, until the handler has ended. Raises TooManyRequests."""
    if size >= LARGE_BYTES and (counted := request.get(LONG_TRANSFERS)) is not None:
        counted.held.enter_context(counted_bytes(request, size))


def due_seconds(size: int) -> float:
    """The time that so many bytes take at the minimum throughput."""
    return size / LEAST_BYTES_PER_SECOND


def seconds_for(size: int) -> float:
    """The longest time that a client may take for so many bytes."""
    return BEHIND_SECONDS + due_seconds(size)
