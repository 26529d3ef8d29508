"""When the events of the stream were stored: how far a state reflects them that others told beside their events."""

from collections import deque
from datetime import datetime, timedelta

LAG = timedelta(seconds=2)
"""Maximum age of a heartbeat, queue snapshot or desired state when NATS stores it. It may lack events that were stored
in this time."""
REMEMBERED = 2_000
"""How many moments are remembered. The feed makes at most 20 a second: these are the last 100 seconds at least."""


class EventPositions:
    """The latest pairs of storage time and stream sequence, ascending in both."""

    def __init__(self) -> None:
        self._moments: deque[tuple[datetime, int]] = deque(maxlen=REMEMBERED)

    def note(self, stored_at: datetime, position: int) -> None:
        """Remembers that the event at a position was stored at this moment, and all before it earlier."""
        if self._moments and position < self._moments[-1][1]:
            self._moments.clear()  # the stream was lost and made again: it counts from 1
        self._moments.append((stored_at, position))

    @property
    def empty(self) -> bool:
        """Whether no moment is known."""
        return not self._moments

    def reflected_at(self, published_at: datetime) -> int | None:
        """The last position whose event, like all before it, is reflected in a message published at this time.

        None if not known.
        """
        made_at = published_at - LAG
        return next((position for at, position in reversed(self._moments) if at <= made_at), None)
