"""Whether there was trouble with the API server lately.

After it the controllers take up their watches one by one, each after a pause of its own: for a while the one of
ReplicaSets can act with an old copy of the pods. Nobody tells how old it is, so that time has to do. With such a copy
it can do two things that nobody wants:

- On new replicas it deletes a worker that is not marked in its copy. Where the API server itself guards unmarked
  workers (k8s/edge, the policy `slurmd-pods`), it cannot.
- It waits for pods of its own that it is never to see. It makes no others until it has seen all that it made last, and
  one that is on its way out when the copy is fresh again does not count. It gives up after five minutes
  (`ExpectationsTimeout` of its controller), and then only when something of its own changes.
"""

import time
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from clusterra_edge_agent.substrate import state_files as state

CALM_SECONDS = 10.0
"""At least: twice what was seen after an API server had been away for four seconds for the first time."""
LONGEST_CALM_SECONDS = 120.0
"""Two pauses of a controller's `Reflector`, each of thirty seconds and by chance as much again."""
SAME_TROUBLE_SECONDS = 120.0
"""Trouble that comes sooner after the last pause of a `Reflector` adds to the one before: the pauses go on from where
they were (client-go's `defaultBackoffReset`)."""


class _Trouble(BaseModel):
    model_config = ConfigDict(frozen=True)

    since: float = 0.0
    """Seconds of the epoch, as `at`: another agent may have seen it. Earlier versions kept only that."""
    at: float = 0.0
    """When it was last seen."""
    unfollowed: frozenset[str] = frozenset()
    """The collections that could not be followed then."""

    @property
    def calm_seconds(self) -> float:
        """How long what comes after it counts as trouble.

        A `Reflector` asks for its watch again after 0.8 s, then after twice as long each time, and by chance as much
        again. When the API server refuses its old version it pauses once more, and then lists. So after trouble of n
        seconds these two pauses may be 2n + 1.6 and 4n + 3.2 seconds.
        """
        return min(max(6 * (self.at - self.since) + 5, CALM_SECONDS), LONGEST_CALM_SECONDS)


class Calm:
    """Remembers the last trouble over restarts of the agent."""

    def __init__(self, file: Path, clock: Callable[[], float] = time.time) -> None:
        """Raises state.StateUnreadable."""
        self._file = file
        self._clock = clock
        self._trouble = state.read(file, _Trouble) or _Trouble()

    def note(self, collection: str, following: bool) -> None:
        """Whether a collection can be followed: trouble lasts until it can be again. Raises OSError."""
        last = self._trouble
        if following and collection not in last.unfollowed:
            return
        now = self._clock()
        same = last.unfollowed or now - last.at < last.calm_seconds + SAME_TROUBLE_SECONDS
        unfollowed = last.unfollowed - {collection} if following else last.unfollowed | {collection}
        self._trouble = _Trouble(since=last.since if same else now, at=now, unfollowed=unfollowed)
        state.write(self._file, self._trouble)

    @property
    def reached(self) -> bool:
        """Whether the last trouble is over, and long enough ago."""
        last = self._trouble
        return not last.unfollowed and self._clock() - last.at >= last.calm_seconds
