"""Tells each cluster's Slurm whose jobs to refuse: those of deactivated users, and where a quota is used up.

Used-up quotas are sent only where Slurm enforces the limits of associations. Deactivated users are sent there, and
where Clusterra keeps the associations. What is sent is the whole wanted state, so each gateway may send it at any time.
"""

import time
from collections.abc import Iterable, Sequence

import structlog
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.slurm_limits import MAX_BLOCKED, BlockSubmits
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.money.quotas.records import QuotaScope

log = structlog.get_logger()

REPEAT_SECONDS = 60.0
"""How often an unchanged state is sent again: somebody may have changed the associations."""
RETRY_SECONDS = 15.0
"""How long an unchanged state is not sent again that could not be kept: a slow slurmdbd must not slow down quotas."""


class SlurmLimits:
    """Tells each cluster's proxy whose jobs Slurm is to refuse."""

    def __init__(self, slurm: SlurmRequests) -> None:
        self._slurm = slurm
        self._sent: dict[ClusterRef, tuple[BlockSubmits, float]] = {}
        """What was sent last, and until when it is not sent again."""

    async def keep(
        self, ref: ClusterRef, binding: ClusterBinding, used_up: Iterable[QuotaScope], deactivated: Sequence[str]
    ) -> None:
        """Send the wanted state if it has changed, or was sent long ago.

        `used_up`: the scopes without any room. `deactivated`: the users who may submit nothing. Those at the end are
        left out where all are more than a message holds.
        """
        scopes = sorted(used_up, key=str)
        users = list(dict.fromkeys((*(scope.name for scope in scopes if scope.kind == "user"), *deactivated)))
        if len(users) > MAX_BLOCKED:
            log.warning("more_users_than_slurm_is_told", tenant=ref.tenant, cluster=ref.cluster, users=len(users))
        wanted = BlockSubmits(
            users=tuple(sorted(users[:MAX_BLOCKED])),
            accounts=tuple(scope.name for scope in scopes if scope.kind == "account"),
            # On a cluster that others use as well, the root account is theirs, too.
            everybody=not binding.attached and any(scope.kind == "tenant" for scope in scopes),
        )
        sent = self._sent.get(ref)
        if sent is not None and sent[0] == wanted and time.monotonic() < sent[1]:
            return
        try:
            await self._slurm.block_submits(ref, wanted)
        except RpcFailed as failed:
            log.warning("slurm_limits_not_kept", tenant=ref.tenant, cluster=ref.cluster, reason=failed.error.detail)
            self._sent[ref] = wanted, time.monotonic() + RETRY_SECONDS
            return
        self._sent[ref] = wanted, time.monotonic() + REPEAT_SECONDS
