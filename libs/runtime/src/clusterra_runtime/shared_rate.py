"""A rate that several share: the more they are, the more seldom it is the turn of each."""

from collections.abc import Iterator
from contextlib import contextmanager


class SharedRate:
    """The interval between two turns of each sharer, such that all turns together are at most `1 / seconds_each` per
    second.
    """

    def __init__(self, seconds_each: float) -> None:
        self._seconds_each = seconds_each
        self._sharers = 0

    def interval(self, shortest: float) -> float:
        """Return the seconds between two turns of one that would take `shortest` if it were alone."""
        return max(shortest, self._seconds_each * self._sharers)

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Count one more sharer until the block ends."""
        self._sharers += 1
        try:
            yield
        finally:
            self._sharers -= 1
