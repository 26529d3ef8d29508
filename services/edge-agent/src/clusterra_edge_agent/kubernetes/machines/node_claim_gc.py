"""Deleting the NodeClaims of ghosts, one at a time and never on a mere guess."""

import asyncio
import time
from dataclasses import replace

import structlog
from prometheus_client import Counter

from clusterra_edge_agent.kubernetes.client.api import Api, Collection
from clusterra_edge_agent.kubernetes.client.errors import ApiError
from clusterra_edge_agent.kubernetes.client.resources import SHAPE_LABEL
from clusterra_edge_agent.kubernetes.machines.idle_node_claims import Ghosts, NodesOf
from clusterra_edge_agent.kubernetes.machines.machines import NODE_CLAIMS, Machines
from clusterra_edge_agent.kubernetes.machines.resources import NodeClaim
from clusterra_edge_agent.kubernetes.workers.substrate import KubernetesSubstrate
from clusterra_edge_agent.substrate.port import SubstrateUnavailable

log = structlog.get_logger(__name__)

REMOVED = Counter("clusterra_edge_ghosts_removed_total", "NodeClaims that were deleted since they carried no worker")

PASS_SECONDS = 10.0


class GhostRemoval:
    """One NodeClaim in each pass at most, and only while pods, nodes and NodeClaims are all followed and calm, and no
    other agent may act.

    The pods of its node are asked for once more: a watch that hangs shows an old picture for up to two minutes. A
    worker that is bound there even later keeps running: Karpenter drains a node before it takes it away, and evictions
    of workers are refused.
    """

    def __init__(
        self,
        api: Api,
        substrate: KubernetesSubstrate,
        machines: Machines,
        ghost_seconds: float,
        *,
        pass_seconds: float = PASS_SECONDS,
    ) -> None:
        """`ghost_seconds`: for how long a machine carries no worker until it is a ghost."""
        self._api = api
        self._substrate = substrate
        self._machines = machines
        self._ghosts = Ghosts(ghost_seconds)
        self._pass_seconds = pass_seconds

    async def run(self) -> None:
        """Look and remove until cancelled."""
        while True:
            await asyncio.sleep(self._pass_seconds)
            ghost = self._look()
            if ghost is None:
                continue
            try:
                await self._remove(ghost)
            except ApiError as error:
                log.warning("ghost_not_removed", node_claim=ghost.name, reason=str(error))

    def _look(self) -> NodeClaim | None:
        nodes, claims = self._machines.nodes, self._machines.claims
        try:
            pods = [pod for pods in self._substrate.pods().values() for pod in pods.values()]
        except SubstrateUnavailable:
            pods = None
        if nodes is None or claims is None or pods is None or not (self._substrate.calm and self._api.leadership.held):
            self._ghosts.forget()
            return None
        carrying = {pod.spec.node_name for pod in pods if pod.spec.node_name}
        return self._ghosts.look(claims, nodes, carrying, time.monotonic())

    async def _remove(self, ghost: NodeClaim) -> None:
        """Raises ApiError."""
        pods = Collection.pods(self._api.namespace, SHAPE_LABEL)
        for node in NodesOf(self._machines.nodes or ())(ghost):
            bound, _ = await self._api.list(replace(pods, fields=f"spec.nodeName={node}"))
            if bound:
                log.info("ghost_has_a_worker", node_claim=ghost.name, node=node, worker=bound[0].name)
                return
        await self._api.delete_of(NODE_CLAIMS, ghost)
        REMOVED.inc()
        log.warning(
            "ghost_removed",
            node_claim=ghost.name,
            node=ghost.status.node_name,
            instance=ghost.fact.instance_id,
            node_pool=ghost.node_pool,
        )
