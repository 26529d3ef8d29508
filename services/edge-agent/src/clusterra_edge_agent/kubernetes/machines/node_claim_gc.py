"""Garbage collection of idle NodeClaims: deletes them one at a time, and only on reliable observations."""

import asyncio
import time
from dataclasses import replace

import structlog
from prometheus_client import Counter

from clusterra_edge_agent.kubernetes.client.api import Api, Collection
from clusterra_edge_agent.kubernetes.client.errors import ApiError
from clusterra_edge_agent.kubernetes.client.resources import SHAPE_LABEL
from clusterra_edge_agent.kubernetes.machines.idle_node_claims import IdleNodeClaims, NodeIndex
from clusterra_edge_agent.kubernetes.machines.machines import NODE_CLAIMS, Machines
from clusterra_edge_agent.kubernetes.machines.resources import NodeClaim
from clusterra_edge_agent.kubernetes.workers.substrate import KubernetesSubstrate
from clusterra_edge_agent.substrate.port import SubstrateUnavailable

log = structlog.get_logger(__name__)

REMOVED = Counter("clusterra_edge_ghosts_removed_total", "NodeClaims deleted because they carried no worker")

PASS_SECONDS = 10.0


class NodeClaimGC:
    """Deletes at most one idle NodeClaim per pass.

    It acts only while pods, nodes and NodeClaims are all followed, no cache may be stale, and no other agent may act.
    Before each deletion it lists the pods of the node and the NodeClaim once more, because a watch that hangs shows an
    old state for up to two minutes. It deletes only what the API server still counts to a NodePool of workers, and only
    as it was read. A worker that is bound there even later keeps running: Karpenter drains a node before it removes it,
    and evictions of workers are refused.
    """

    def __init__(
        self,
        api: Api,
        substrate: KubernetesSubstrate,
        machines: Machines,
        idle_seconds: float,
        *,
        pass_seconds: float = PASS_SECONDS,
    ) -> None:
        """`idle_seconds`: how long a NodeClaim may be without a worker before it is deleted."""
        self._api = api
        self._substrate = substrate
        self._machines = machines
        self._idle_claims = IdleNodeClaims(idle_seconds)
        self._pass_seconds = pass_seconds

    async def run(self) -> None:
        """Runs passes until cancelled."""
        while True:
            await asyncio.sleep(self._pass_seconds)
            claim = self._candidate()
            if claim is None:
                continue
            try:
                await self._delete(claim)
            except ApiError as error:
                log.warning("ghost_not_removed", node_claim=claim.name, reason=str(error))

    def _candidate(self) -> NodeClaim | None:
        nodes, claims = self._machines.nodes, self._machines.claims
        try:
            pods = [pod for pods in self._substrate.pods().values() for pod in pods.values()]
        except SubstrateUnavailable:
            pods = None
        if (
            nodes is None
            or claims is None
            or pods is None
            or not (self._substrate.caches_fresh and self._api.leadership.held)
        ):
            self._idle_claims.reset()
            return None
        occupied = {pod.spec.node_name for pod in pods if pod.spec.node_name}
        return self._idle_claims.overdue(claims, nodes, occupied, time.monotonic())

    async def _delete(self, claim: NodeClaim) -> None:
        """Deletes the NodeClaim unless its node has a worker or it is of another NodePool now. Raises ApiError."""
        pods = Collection.pods(self._api.namespace, SHAPE_LABEL)
        for node in NodeIndex(self._machines.nodes or ()).names(claim):
            bound, _ = await self._api.list(replace(pods, fields=f"spec.nodeName={node}"))
            if bound:
                log.info("ghost_has_a_worker", node_claim=claim.name, node=node, worker=bound[0].name)
                return
        own, _ = await self._api.list(replace(NODE_CLAIMS, fields=f"metadata.name={claim.name}"))
        unchanged = next((each for each in own if each.metadata.uid == claim.metadata.uid), None)
        if unchanged is None:
            log.info("ghost_is_not_ours", node_claim=claim.name, node_pool=claim.node_pool)
            return
        await self._api.delete_of(NODE_CLAIMS, unchanged)
        REMOVED.inc()
        log.warning(
            "ghost_removed",
            node_claim=claim.name,
            node=claim.status.node_name,
            instance=claim.reported.instance_id,
            node_pool=claim.node_pool,
        )
