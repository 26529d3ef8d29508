"""A token bucket per key, in a bounded table: only what one cluster sends in excess is left out."""

import time
from collections import OrderedDict
from collections.abc import Callable

MAX_KEYS = 20_000


class RateLimit:
    """Admits `burst` at once for each key, and `per_second` from then on.

    Beyond MAX_KEYS, the keys that were asked for longest ago are forgotten.
    """

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Key -> the tokens left, and when that was."""

    def admits(self, key: str) -> bool:
        """Take a token of a key. False if none is left."""
        now = self._clock()
        left, at = self._buckets.pop(key, (float(self._burst), now))
        left = min(self._burst, left + (now - at) * self._per_second)
        admitted = left >= 1
        self._buckets[key] = (left - 1 if admitted else left, now)
        if len(self._buckets) > MAX_KEYS:
            self._buckets.popitem(last=False)
        return admitted
