"""A cache with a bound, and a time to live where one is wanted."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable


def _monotonic() -> float:
    # Looked up at each call, so that a test can replace the clock of caches that exist already.
    return time.monotonic()


class BoundedCache[K: Hashable, V]:
    """At most `most` values by key. A further one takes the place of the value that was used longest ago.

    A value older than `seconds` counts as forgotten. `clock` tells seconds, and never goes back.
    """

    def __init__(self, most: int, seconds: float = math.inf, *, clock: Callable[[], float] = _monotonic) -> None:
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._entries = OrderedDict[K, tuple[V, float]]()

    def __contains__(self, key: K) -> bool:
        entry = self._entries.get(key)
        return entry is not None and entry[1] > self._clock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """The value of a key; None when there is none, or it is too old."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry[1] <= self._clock():
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: K, value: V, *, seconds: float | None = None) -> None:
        """Remember a value, for another time than the cache's where `seconds` is given."""
        self._entries[key] = value, self._clock() + (self._seconds if seconds is None else seconds)
        self._entries.move_to_end(key)
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def pop(self, key: K) -> V | None:
        """Forget the value of a key, and return it; None when there is none, or it is too old."""
        value = self.get(key)
        self._entries.pop(key, None)
        return value

    def forget(self, matches: Callable[[K, V], bool]) -> None:
        """Forget the values that match."""
        self._entries = OrderedDict((key, entry) for key, entry in self._entries.items() if not matches(key, entry[0]))
