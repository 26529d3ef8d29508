"""How often the clusters of a replica are polled: the more clusters it watches, the more seldom.

Polls are most of what a quiet cluster costs. Without a bound on all of them together, a replica that takes over the
clusters of another has no CPU left for requests, and its polls become rare in no order.
"""

import asyncio
import time
from contextlib import AbstractContextManager

from clusterra_runtime.shared_rate import SharedRate
from clusterra_runtime.turns import Turns

SECONDS_PER_CLUSTER = 0.004
"""So at most 250 clusters are polled a second. With 1,000 clusters, of which few changed, a proxy took half of a core
(`make bench-fleet CLUSTERS=1000`, docs/operations/capacity.md)."""
POLLS_PER_PLACEHOLDER_CHECK = 2


class Pace:
    """The interval between two polls of a cluster, the same for all that this replica watches, and their turns."""

    def __init__(self, poll_seconds: float) -> None:
        self._shortest = poll_seconds
        self._rate = SharedRate(SECONDS_PER_CLUSTER)
        self._turns = Turns()
        self.turn_seconds = 0.0
        """How long the last poll or placeholder check of any cluster waited for its turn, in seconds.

        It is long only in a replica with more work than CPU.
        """

    @property
    def poll_seconds(self) -> float:
        """Seconds between two polls of a cluster's jobs."""
        return self._rate.interval(self._shortest)

    @property
    def placeholder_seconds(self) -> float:
        """Seconds between two checks of a cluster's placeholders."""
        return POLLS_PER_PLACEHOLDER_CHECK * self.poll_seconds

    async def sleep(self, seconds: float) -> None:
        """Sleep, then wait for a turn. A replica with more work than CPU polls later, and still answers requests."""
        await asyncio.sleep(seconds)
        began = time.monotonic()
        await self._turns.take()
        self.turn_seconds = time.monotonic() - began

    def watched(self) -> AbstractContextManager[None]:
        """Count one more cluster until the block ends."""
        return self._rate.shared()
