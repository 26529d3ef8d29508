"""The status of a Kubernetes edge besides its workers: stuck workers, machines and their prices."""

import asyncio
from datetime import datetime

from clusterra_contracts.heartbeat import Stuck
from clusterra_contracts.identity import WorkerName

from clusterra_edge_agent.heartbeat.edge_status import EdgeStatus
from clusterra_edge_agent.kubernetes.client.api import Api
from clusterra_edge_agent.kubernetes.machines.interruptions import interruptions
from clusterra_edge_agent.kubernetes.machines.machines import Machines
from clusterra_edge_agent.kubernetes.machines.node_claim_gc import PASS_SECONDS, NodeClaimGC
from clusterra_edge_agent.kubernetes.machines.prices import Prices
from clusterra_edge_agent.kubernetes.machines.stuck import stuck
from clusterra_edge_agent.kubernetes.workers.substrate import KubernetesSubstrate
from clusterra_edge_agent.substrate.change_signal import BatchedChangeSignal
from clusterra_edge_agent.substrate.port import SubstrateUnavailable

GATHER_SECONDS = 0.5
"""A booting machine changes several times, and hundreds may boot at once."""


class KubernetesEdgeStatus:
    """Reports on the machines of one substrate's workers, and runs the garbage collection of idle NodeClaims."""

    def __init__(
        self,
        api: Api,
        substrate: KubernetesSubstrate,
        *,
        ghost_seconds: float,
        metrics_url: str | None = None,
        gc_pass_seconds: float = PASS_SECONDS,
    ) -> None:
        """`metrics_url`: Karpenter's metrics endpoint; without it no prices are known."""
        self.change_signal = BatchedChangeSignal(GATHER_SECONDS)
        self._substrate = substrate
        self._machines = Machines(api, self.change_signal.notify)
        self._gc = NodeClaimGC(api, substrate, self._machines, ghost_seconds, pass_seconds=gc_pass_seconds)
        self._prices = Prices(metrics_url, self.change_signal.notify) if metrics_url else None

    async def run(self) -> None:
        """Follows the machines and their prices, and deletes idle NodeClaims, until cancelled."""
        async with asyncio.TaskGroup() as running:
            running.create_task(self._machines.run())
            running.create_task(self._gc.run())
            if self._prices is not None:
                running.create_task(self._prices.run())

    def status(self) -> EdgeStatus:
        """Returns the current status."""
        nodes, claims = self._machines.nodes, self._machines.claims
        return EdgeStatus(
            stuck=self._stuck(),
            nodes=None if nodes is None else tuple(node.reported for node in nodes),
            node_claims=None if claims is None else tuple(claim.reported for claim in claims),
            prices=None if self._prices is None else self._prices.current,
            interruptions=self._interruptions(),
        )

    def _interruptions(self) -> dict[WorkerName, datetime]:
        try:
            return interruptions(self._substrate.pods(), self._machines.nodes, self._machines.claims)
        except SubstrateUnavailable:
            return {}

    def _stuck(self) -> tuple[Stuck, ...] | None:
        try:
            pods, deployments = self._substrate.pods(), self._substrate.deployments()
        except SubstrateUnavailable:
            return None
        return tuple(stuck(pods, deployments, self._machines.claims))
