"""What heartbeats tell of a Kubernetes besides the workers: what is stuck, the machines, and what they cost."""

import asyncio
from datetime import datetime

from clusterra_contracts.heartbeat import Stuck
from clusterra_contracts.identity import WorkerName

from clusterra_edge_agent.heartbeat.edge_facts import Facts
from clusterra_edge_agent.kubernetes.client.api import Api
from clusterra_edge_agent.kubernetes.machines.interruptions import notices
from clusterra_edge_agent.kubernetes.machines.machines import Machines
from clusterra_edge_agent.kubernetes.machines.node_claim_gc import PASS_SECONDS, GhostRemoval
from clusterra_edge_agent.kubernetes.machines.prices import Prices
from clusterra_edge_agent.kubernetes.machines.stuck import stuck
from clusterra_edge_agent.kubernetes.workers.substrate import KubernetesSubstrate
from clusterra_edge_agent.substrate.changes import GatheredChanges
from clusterra_edge_agent.substrate.port import SubstrateUnavailable

GATHER_SECONDS = 0.5
"""A machine that boots changes several times, and hundreds may boot at once."""


class NodeFacts:
    """The machines of one substrate's workers, and the end of those that carry none (see `ghosts`)."""

    def __init__(
        self,
        api: Api,
        substrate: KubernetesSubstrate,
        *,
        ghost_seconds: float,
        metrics_url: str | None = None,
        ghost_pass_seconds: float = PASS_SECONDS,
    ) -> None:
        """`metrics_url`: Karpenter's metrics; without it no price is known."""
        self.changes = GatheredChanges(GATHER_SECONDS)
        self._substrate = substrate
        self._machines = Machines(api, self.changes.tell)
        self._removal = GhostRemoval(api, substrate, self._machines, ghost_seconds, pass_seconds=ghost_pass_seconds)
        self._prices = Prices(metrics_url, self.changes.tell) if metrics_url else None

    async def run(self) -> None:
        """Follow the machines and their prices, and remove ghosts, until cancelled."""
        async with asyncio.TaskGroup() as running:
            running.create_task(self._machines.run())
            running.create_task(self._removal.run())
            if self._prices is not None:
                running.create_task(self._prices.run())

    def facts(self) -> Facts:
        """What is known now."""
        nodes, claims = self._machines.nodes, self._machines.claims
        return Facts(
            stuck=self._stuck(),
            nodes=None if nodes is None else tuple(node.fact for node in nodes),
            node_claims=None if claims is None else tuple(claim.fact for claim in claims),
            prices=None if self._prices is None else self._prices.current,
            leave_by=self._notices(),
        )

    def _notices(self) -> dict[WorkerName, datetime]:
        try:
            return notices(self._substrate.pods(), self._machines.nodes, self._machines.claims)
        except SubstrateUnavailable:
            return {}

    def _stuck(self) -> tuple[Stuck, ...] | None:
        try:
            pods, deployments = self._substrate.pods(), self._substrate.deployments()
        except SubstrateUnavailable:
            return None
        return tuple(stuck(pods, deployments, self._machines.claims))
