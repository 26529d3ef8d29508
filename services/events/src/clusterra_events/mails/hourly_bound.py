"""Bounds the mails to a person in an hour, so that no loop of jobs floods anybody."""

import time
from collections.abc import Callable, Hashable

from clusterra_runtime.bounded_cache import BoundedCache

HOUR_SECONDS = 3600.0
MOST_KEYS = 20_000


class HourlyBound[K: Hashable]:
    """Counts mails by key. An hour begins with the first mail after the hour before.

    The counts are in memory: a restart forgets them.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._hours = BoundedCache[K, tuple[float, int]](MOST_KEYS, clock=clock)
        """Key -> when the hour ends, and how many mails were sent in it."""

    def left(self, key: K) -> int:
        """How many mails may still be sent in the present hour."""
        _, sent = self._hour(key)
        return max(self._most - sent, 0)

    def count(self, key: K) -> None:
        """Count a mail that was sent."""
        ends_at, sent = self._hour(key)
        self._hours.put(key, (ends_at, sent + 1), seconds=ends_at - self._clock())

    def _hour(self, key: K) -> tuple[float, int]:
        return self._hours.get(key) or (self._clock() + HOUR_SECONDS, 0)
