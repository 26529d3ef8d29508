"""How many streams one person may have open at this replica: each holds a queue of events and a connection."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from clusterra_gateway.http.errors import TooManyRequests

MAX_STREAMS = 50
"""A browser opens one for all its tabs' events; a program may follow the outputs of many jobs."""


class StreamLimit:
    """Counts the open streams of each person."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    @contextmanager
    def opened(self, member_id: str) -> Iterator[None]:
        """Counts one stream until the block ends. Raises TooManyRequests."""
        if self._open[member_id] >= MAX_STREAMS:
            raise TooManyRequests(
                f"you have {MAX_STREAMS} streams open", hint="close one, or follow all events in one stream"
            )
        self._open[member_id] += 1
        try:
            yield
        finally:
            self._open[member_id] -= 1
            if not self._open[member_id]:
                del self._open[member_id]
