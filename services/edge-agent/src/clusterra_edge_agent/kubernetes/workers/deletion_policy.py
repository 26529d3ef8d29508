"""Whether the API server itself keeps every started worker that is not marked: k8s/edge's policy `slurmd-pods`.

The agent may not read policies. It tries, as a dry run, to delete a worker that the policy keeps.
"""

import time

from clusterra_edge_agent.kubernetes.client.api import Api
from clusterra_edge_agent.kubernetes.client.resources import Pod

KNOWN_SECONDS = 60.0
"""For how long an answer is taken for granted."""


class Guard:
    """The last answer."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._holds = False
        self._asked_at: float | None = None

    async def holds(self, worker: Pod | None) -> bool:
        """Ask about an `askable` worker, unless there is a fresh answer. Raises ApiError.

        With neither, nothing is known: a worker may have started that nobody has told of yet.
        """
        if self._asked_at is None or time.monotonic() - self._asked_at > KNOWN_SECONDS:
            if worker is None:
                return False
            self._holds = await self._api.is_guarded(worker)
            self._asked_at = time.monotonic()
        return self._holds


def askable(pod: Pod) -> bool:
    """Whether the policy keeps this pod: it has started and is not marked. A victim is asked about before its mark."""
    return pod.active and pod.started and pod.cost >= 0
