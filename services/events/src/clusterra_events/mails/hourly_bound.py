"""Bounds the mails to a person in an hour, so that no loop of jobs floods anybody."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

HOUR_SECONDS = 3600.0
MOST_KEYS = 20_000


class HourlyBound[K: Hashable]:
    """Counts mails by key. An hour begins with the first mail after the hour before.

    The counts are in memory: a restart forgets them.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._hours = OrderedDict[K, tuple[float, int]]()
        """Key -> when the hour began, and how many mails were sent since."""

    def left(self, key: K) -> int:
        """How many mails may still be sent in the present hour."""
        return max(self._most - self._hour(key)[1], 0)

    def count(self, key: K) -> None:
        """Count a mail that was sent."""
        began, sent = self._hour(key)
        self._hours[key] = began, sent + 1
        self._hours.move_to_end(key)
        if len(self._hours) > MOST_KEYS:
            self._hours.popitem(last=False)

    def _hour(self, key: K) -> tuple[float, int]:
        at = self._clock()
        began, sent = self._hours.get(key, (at, 0))
        return (at, 0) if at - began >= HOUR_SECONDS else (began, sent)
