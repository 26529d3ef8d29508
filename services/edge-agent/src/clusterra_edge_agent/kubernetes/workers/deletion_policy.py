"""The deletion policy: whether the API server itself protects every started worker that is not marked as a victim.

This is the policy `slurmd-pods` of k8s/edge. The agent may not read policies, so it probes: it tries, as a dry run, to
delete a worker that the policy protects.
"""

import time

from clusterra_edge_agent.kubernetes.client.api import Api
from clusterra_edge_agent.kubernetes.client.resources import Pod

ANSWER_VALID_SECONDS = 60.0
"""How long an answer is trusted."""


class DeletionPolicy:
    """The result of the last probe of the policy."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._enforced = False
        self._asked_at: float | None = None

    async def is_enforced(self, worker: Pod | None) -> bool:
        """Whether the policy is enforced. Unless the last answer is recent, probes with a worker that `can_probe`
        allows.

        Without either, the answer is False: a worker may have started that has not been observed yet. Raises ApiError.
        """
        if self._asked_at is None or time.monotonic() - self._asked_at > ANSWER_VALID_SECONDS:
            if worker is None:
                return False
            self._enforced = await self._api.deletion_denied(worker)
            self._asked_at = time.monotonic()
        return self._enforced


def can_probe(pod: Pod) -> bool:
    """Whether the policy protects this pod: it has started and is not marked. A victim qualifies before its mark."""
    return pod.active and pod.started and pod.cost >= 0
