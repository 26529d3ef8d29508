"""Reads a stream from its end: the newest message first, in bounded pages, without a consumer."""

from collections.abc import AsyncGenerator

from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import Stored, last_sequence, read_page

FIRST_WIDTH = 64
"""How many sequences are read at first. It doubles where messages are few, and halves where a page is too small."""
PAGE_BYTES = 1024 * 1024


async def newest_first(client: Client, stream: str, subject_filter: str = ">") -> AsyncGenerator[Stored]:
    """Yields the messages of a stream that match a filter, the newest first.

    JetStream reads forwards only. So this reads pages further and further back, and reverses each. Raises
    BusUnavailable.
    """
    highest, width = await last_sequence(client, stream), FIRST_WIDTH
    while highest > 0:
        lowest = max(highest - width, 0)
        page, more = await read_page(client, stream, subject_filter, after=lowest, max_bytes=PAGE_BYTES)
        inside = [each for each in page if each.sequence <= highest]
        if more and len(inside) == len(page) and width > 1:
            # The page ended before the highest sequence was reached.
            width //= 2
            continue
        for each in reversed(inside):
            yield each
        highest = lowest
        if len(inside) < FIRST_WIDTH // 2 and sum(len(each.body) for each in inside) < PAGE_BYTES // 4:
            width *= 2
