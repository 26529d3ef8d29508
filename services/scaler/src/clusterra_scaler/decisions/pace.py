"""How often a replica decides because of the time alone: the more clusters it has, the more seldom for each.

A new input is decided on at once. Between inputs, time changes what is idle, overdue or too old. Without a bound on all
these decisions together, a replica with many clusters has no time left for those that wait for an answer.
"""

from collections.abc import Iterator
from contextlib import contextmanager

SECONDS_PER_CLUSTER = 0.01
"""So at most 100 such decisions are made a second, which take a tenth of a core (docs/operations/capacity.md)."""


class Pace:
    """The shortest interval between two decisions of a cluster without a new input."""

    def __init__(self) -> None:
        self._clusters = 0

    def tick_seconds(self, wanted: float) -> float:
        """Return the interval in seconds for a cluster that would be decided on every `wanted` seconds."""
        return max(wanted, SECONDS_PER_CLUSTER * self._clusters)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count one more cluster until the block ends."""
        self._clusters += 1
        try:
            yield
        finally:
            self._clusters -= 1
