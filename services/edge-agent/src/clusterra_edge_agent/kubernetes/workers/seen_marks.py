"""Whether another operator has surely seen the marks of a shape's pods.

Slinky's operator watches pods and NodeSets apart, and nothing tells how far its copy of the pods is. When replicas are
lowered right after the marks, it may act on unmarked pods: with a watch of pods that lagged 1.5 s behind, unmarked
workers were lost in 1 of 20 rounds. So the agent waits after the last change of a mark.
"""

import time
from collections.abc import Callable

from clusterra_contracts.identity import ShapeName

SEEN_SECONDS = 5.0
"""Time after which a mark has surely been seen, unless the API server had an outage: see the stale-cache guard."""


class SeenMarks:
    """Remembers when the marks of each shape changed last. Marks of an earlier run of the agent may be new, too."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started_at = clock()
        self._changed_at: dict[ShapeName, float] = {}

    def changed(self, shape: ShapeName) -> None:
        """Notes that a mark was set or removed."""
        self._changed_at[shape] = self._clock()

    def are_seen(self, shape: ShapeName) -> bool:
        """Whether the last change is long enough ago."""
        return self._clock() - self._changed_at.get(shape, self._started_at) >= SEEN_SECONDS
