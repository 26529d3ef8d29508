"""A token bucket per key, in a bounded table: only what one key sends in excess is left out."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

MAX_KEYS = 20_000


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a request for a token."""

    admitted: bool
    left: int
    """Whole tokens that are left."""
    next_seconds: float
    """When the next token is there; 0 while one is left."""
    full_seconds: float
    """When the bucket is full again, if nobody takes a token until then."""


class RateLimit:
    """Admits `burst` at once for each key, and `per_second` from then on.

    Beyond MAX_KEYS, the keys that were asked for longest ago are forgotten.
    """

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self.burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Key -> the tokens left, and when that was."""

    def admits(self, key: str) -> bool:
        """Take a token of a key. False if none is left."""
        return self.take(key).admitted

    def seconds_to_next(self, key: str) -> float:
        """When the next token of a key is there, without taking one; 0 while one is left."""
        return max(0.0, (1 - self._left(key, self._clock())) / self._per_second)

    def _left(self, key: str, now: float) -> float:
        left, at = self._buckets.get(key, (float(self.burst), now))
        return min(self.burst, left + (now - at) * self._per_second)

    def take(self, key: str) -> Taken:
        """Take a token of a key, if one is left, and say how many are left then."""
        now = self._clock()
        left = self._left(key, now)
        self._buckets.pop(key, None)
        admitted = left >= 1
        left = left - 1 if admitted else left
        self._buckets[key] = (left, now)
        if len(self._buckets) > MAX_KEYS:
            self._buckets.popitem(last=False)
        return Taken(
            admitted,
            left=math.floor(left),
            next_seconds=max(0.0, (1 - left) / self._per_second),
            full_seconds=(self.burst - left) / self._per_second,
        )
