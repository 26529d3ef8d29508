"""The age of the last queue snapshot: how long ago its reads of Slurm began. Pure.

Three clocks take part: the proxy's, this scaler's, and its monotonic one. Only differences on the same clock count:

    taken -- read and published (proxy's clock) --> sent -- in transit --> arrived -- (monotonic clock) --> now

The time in transit would be a difference between two clocks. Its excess over the shortest of the last messages is used
instead. So a constant difference between the clocks has no effect, and a message that lay in the stream for an hour
counts as an hour old. The first message may be an old one that is replayed, so it is believed as it is dated.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from clusterra_contracts.queue import QueueSnapshot

REMEMBERED = 10
"""Number of messages whose times in transit are compared. After a step of a clock so many messages count as late."""


@dataclass(frozen=True, slots=True)
class SnapshotAge:
    """The age of the last snapshot, updated by each snapshot that arrives."""

    at_arrival: float = 0.0
    """How many seconds old the last snapshot was when it arrived."""
    arrived: float = 0.0
    """When it arrived, by the monotonic clock."""
    transits: tuple[float, ...] | None = None
    """The latest differences between arrival and publication, by two clocks; None before the first message."""

    def after(self, snapshot: QueueSnapshot, at: datetime, monotonic: float) -> Self:
        """Return the age after a snapshot that arrives now, by the wall clock and the monotonic one."""
        published_at = snapshot.published_at or snapshot.taken_at
        transit = (at - published_at).total_seconds()
        if self.transits is None:
            transits: tuple[float, ...] = ()
            late = max(transit, 0.0)
        else:
            transits = (*self.transits, transit)[-REMEMBERED:]
            late = transit - min(transits)
        read = max((published_at - snapshot.taken_at).total_seconds(), 0.0)
        return replace(self, at_arrival=read + late, arrived=monotonic, transits=transits)

    def seconds(self, monotonic: float) -> float:
        """How many seconds old the last snapshot is now."""
        return self.at_arrival + max(monotonic - self.arrived, 0.0)
