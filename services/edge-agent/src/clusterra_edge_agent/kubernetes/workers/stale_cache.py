"""The stale-cache guard: whether controllers may still act on an old copy of the pods after an API server outage.

After an outage the controllers resume their watches one by one, each after a pause of its own. For a while the
ReplicaSet controller may act on an old copy of the pods. Nothing reports the age of that copy, so the guard waits. With
an old copy, the controller can do harm in two ways:

- When replicas are lowered, it ranks the pods by outdated marks and may delete an unmarked worker. The API server
  prevents this where it protects such workers (policy `slurmd-pods` of k8s/edge).
- It waits for pods that it will never observe. It creates no other pods until it has observed all those that it created
  last. A pod that is already terminating when the copy is fresh again does not count as observed. The controller stops
  waiting after five minutes (its `ExpectationsTimeout`), and only when one of its objects changes.
"""

import time
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from clusterra_edge_agent.substrate import state_files

MIN_GUARD_SECONDS = 10.0
"""Minimum: twice the delay that was measured after a first outage of four seconds."""
MAX_GUARD_SECONDS = 120.0
"""Two pauses of a controller's `Reflector`, each of thirty seconds plus up to the same again as jitter."""
SAME_OUTAGE_SECONDS = 120.0
"""An outage that begins sooner than this after the last pause of a `Reflector` extends the previous outage: the pauses
keep growing from their last length (client-go's `defaultBackoffReset`)."""


class _Outage(BaseModel):
    model_config = ConfigDict(frozen=True)

    since: float = 0.0
    """Start, in seconds since the epoch like `at`: another agent may have observed it. Earlier versions stored only
    `at`."""
    at: float = 0.0
    """When it was last observed."""
    unfollowed: frozenset[str] = frozenset()
    """The collections that could not be followed then."""

    @property
    def guard_seconds(self) -> float:
        """How long the caches may be stale after the outage.

        A `Reflector` requests its watch again after 0.8 s, then after twice as long each time, plus up to the same
        again as jitter. When the API server rejects its old version, it pauses once more and then lists. So after an
        outage of n seconds these two pauses may take 2n + 1.6 and 4n + 3.2 seconds.
        """
        return min(max(6 * (self.at - self.since) + 5, MIN_GUARD_SECONDS), MAX_GUARD_SECONDS)


class StaleCacheGuard:
    """Remembers the last outage over restarts of the agent."""

    def __init__(self, file: Path, clock: Callable[[], float] = time.time) -> None:
        """Raises state_files.StateUnreadable."""
        self._file = file
        self._clock = clock
        self._outage = state_files.read(file, _Outage) or _Outage()

    def record(self, collection: str, following: bool) -> None:
        """Records whether a collection can be followed. An outage lasts until all can be again. Raises OSError."""
        last = self._outage
        if following and collection not in last.unfollowed:
            return
        now = self._clock()
        same = last.unfollowed or now - last.at < last.guard_seconds + SAME_OUTAGE_SECONDS
        unfollowed = last.unfollowed - {collection} if following else last.unfollowed | {collection}
        self._outage = _Outage(since=last.since if same else now, at=now, unfollowed=unfollowed)
        state_files.write(self._file, self._outage)

    @property
    def caches_fresh(self) -> bool:
        """Whether the last outage is over, and long enough ago."""
        last = self._outage
        return not last.unfollowed and self._clock() - last.at >= last.guard_seconds
