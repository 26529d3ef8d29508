"""Keeps Slurm's own limits in step with quotas: where a quota is used up, Slurm refuses jobs by itself.

Only on clusters whose binding says that Slurm enforces the limits of associations. What is sent is the whole wanted
state, so each gateway may send it at any time.
"""

import time
from collections.abc import Iterable

import structlog
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.slurm_limits import BlockSubmits
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.money.quotas.records import QuotaScope

log = structlog.get_logger()

REPEAT_SECONDS = 60.0
"""How often an unchanged state is sent again: somebody may have changed the associations."""


class SlurmLimits:
    """Tells each cluster's proxy whose jobs Slurm is to refuse."""

    def __init__(self, slurm: SlurmRequests) -> None:
        self._slurm = slurm
        self._sent: dict[ClusterRef, tuple[BlockSubmits, float]] = {}

    async def keep(self, ref: ClusterRef, binding: ClusterBinding, used_up: Iterable[QuotaScope]) -> None:
        """Send the wanted state if it has changed, or was sent long ago. `used_up`: the scopes without any room."""
        scopes = sorted(used_up, key=str)
        wanted = BlockSubmits(
            users=tuple(scope.name for scope in scopes if scope.kind == "user"),
            accounts=tuple(scope.name for scope in scopes if scope.kind == "account"),
            # On a cluster that others use as well, the root account is theirs, too.
            everybody=not binding.attached and any(scope.kind == "tenant" for scope in scopes),
        )
        sent = self._sent.get(ref)
        if sent is not None and sent[0] == wanted and time.monotonic() - sent[1] < REPEAT_SECONDS:
            return
        try:
            await self._slurm.block_submits(ref, wanted)
        except RpcFailed as failed:
            log.warning("slurm_limits_not_kept", tenant=ref.tenant, cluster=ref.cluster, reason=failed.error.detail)
            return
        self._sent[ref] = wanted, time.monotonic()
