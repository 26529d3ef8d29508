"""Whether there was trouble with the API server lately.

After it the controllers take up their watches one by one, each after a pause of its own: for some seconds the one of
ReplicaSets can act on new replicas with an old copy of the pods. Nobody tells how old it is. Where the API server
itself guards unmarked workers (k8s/edge, the policy `slurmd-pods`), that does not matter; elsewhere time has to do.
"""

import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from clusterra_edge_agent import state

CALM_SECONDS = 10.0
"""Twice what was seen after an API server had been away for four seconds."""


class _Trouble(BaseModel):
    model_config = ConfigDict(frozen=True)

    at: float
    """Seconds of the epoch: another agent may have seen it."""


class Calm:
    """Remembers the last trouble over restarts of the agent."""

    def __init__(self, file: Path) -> None:
        """Raises state.StateUnreadable."""
        self._file = file
        kept = state.read(file, _Trouble)
        self._trouble_at = kept.at if kept else 0.0

    def disturb(self) -> None:
        """There is trouble. Raises OSError."""
        self._trouble_at = time.time()
        state.write(self._file, _Trouble(at=self._trouble_at))

    @property
    def reached(self) -> bool:
        """Whether the last trouble is long enough ago."""
        return time.time() - self._trouble_at >= CALM_SECONDS
