"""Waiting longer and longer after failures in a row, such as of a shape whose workers keep ending. Pure."""

from dataclasses import dataclass

from clusterra_contracts.identity import ShapeName

BASE_SECONDS = 1.0
LIMIT_SECONDS = 60.0
STABLE_SECONDS = 60.0
"""A worker that lived this long ended for another reason than the one before it."""


def backoff_seconds(failures: int, *, limit_seconds: float) -> float:
    """How long to wait after so many failures in a row (at least one): 1 s, and twice as long each time."""
    # The exponent is bounded: 2.0**1024 is no float.
    return min(limit_seconds, BASE_SECONDS * 2.0 ** min(failures - 1, 16))


@dataclass(frozen=True, slots=True)
class _Crashes:
    in_a_row: int
    until: float


class CrashBackoff:
    """Times are seconds of one monotonic clock, given by the caller.

    Workers of a shape that end together count once: failures during a wait do not lengthen it.
    """

    def __init__(self) -> None:
        self._crashes: dict[ShapeName, _Crashes] = {}

    def failed(self, shape: ShapeName, *, lived_seconds: float, now: float) -> None:
        """A worker ended by itself, or could not be started at all (`lived_seconds=0`)."""
        before = self._crashes.get(shape)
        if before and now < before.until:
            return
        in_a_row = 1
        if before and lived_seconds < STABLE_SECONDS and now - before.until < LIMIT_SECONDS + STABLE_SECONDS:
            in_a_row += before.in_a_row
        self._crashes[shape] = _Crashes(in_a_row, now + backoff_seconds(in_a_row, limit_seconds=LIMIT_SECONDS))

    def remaining_seconds(self, shape: ShapeName, now: float) -> float:
        """How long no worker of this shape should be started; 0 when one may."""
        crashes = self._crashes.get(shape)
        return max(0.0, crashes.until - now) if crashes else 0.0

    def in_a_row(self, shape: ShapeName) -> int:
        """How often it has failed without success in between."""
        crashes = self._crashes.get(shape)
        return crashes.in_a_row if crashes else 0
