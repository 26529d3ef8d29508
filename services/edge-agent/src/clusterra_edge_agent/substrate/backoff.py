"""Exponential back-off after consecutive failures, such as of a shape whose workers keep ending. Pure."""

from dataclasses import dataclass

from clusterra_contracts.identity import ShapeName

BASE_SECONDS = 1.0
LIMIT_SECONDS = 60.0
STABLE_SECONDS = 60.0
"""A worker that lived this long has not failed for the same reason as the one before it."""


def backoff_seconds(failures: int, *, limit_seconds: float) -> float:
    """Returns the pause after this many consecutive failures (at least one): 1 s, doubled with each failure."""
    # The exponent is bounded because 2.0**1024 overflows.
    return min(limit_seconds, BASE_SECONDS * 2.0 ** min(failures - 1, 16))


@dataclass(frozen=True, slots=True)
class _Crashes:
    consecutive: int
    until: float


class CrashBackoff:
    """Back-off per shape. Times are seconds of one monotonic clock, passed by the caller.

    Workers of a shape that end together count as one failure: failures during a pause do not lengthen it.
    """

    def __init__(self) -> None:
        self._crashes: dict[ShapeName, _Crashes] = {}

    def record_failure(self, shape: ShapeName, *, lived_seconds: float, now: float) -> None:
        """Records that a worker ended by itself, or could not be started at all (`lived_seconds=0`)."""
        before = self._crashes.get(shape)
        if before and now < before.until:
            return
        consecutive = 1
        if before and lived_seconds < STABLE_SECONDS and now - before.until < LIMIT_SECONDS + STABLE_SECONDS:
            consecutive += before.consecutive
        self._crashes[shape] = _Crashes(consecutive, now + backoff_seconds(consecutive, limit_seconds=LIMIT_SECONDS))

    def remaining_seconds(self, shape: ShapeName, now: float) -> float:
        """Returns how long no worker of this shape should be started; 0 when one may be."""
        crashes = self._crashes.get(shape)
        return max(0.0, crashes.until - now) if crashes else 0.0

    def consecutive(self, shape: ShapeName) -> int:
        """Returns the number of consecutive failures of this shape."""
        crashes = self._crashes.get(shape)
        return crashes.consecutive if crashes else 0
