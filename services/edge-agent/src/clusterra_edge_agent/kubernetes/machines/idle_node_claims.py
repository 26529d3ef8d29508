"""Detects idle NodeClaims: machines that cost money and carry no worker. Pure.

Karpenter removes empty nodes itself: an empty node three minutes after its last pod has gone (`WhenEmpty`,
`consolidateAfter` of the NodePools), a machine that it cannot launch after 5 minutes, one that never registers after
15. A node that is empty for a shorter time is kept on purpose: a new worker starts there in a second.

An overdue NodeClaim is one that Karpenter should have removed and did not. This agent has observed it for `seconds`
without interruption, and during that whole time it had no node, or a node without a worker. There are two causes:
Karpenter considers the node used, for example because a foreign pod runs on it; or Karpenter still waits for a machine
that never came up.

The idle time starts at the first observation, on a monotonic clock, and not at the NodeClaim's creation: a node that
was busy for hours is not overdue as soon as it is idle, and the clocks of two machines may differ by minutes.
"""

from collections.abc import Collection, Iterable

from clusterra_edge_agent.kubernetes.machines.resources import Node, NodeClaim


class IdleNodeClaims:
    """Tracks how long each NodeClaim has been without a worker, uninterruptedly."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[str, float] = {}

    def reset(self) -> None:
        """Restarts all idle times, after a period without observation."""
        self._since.clear()

    def overdue(
        self, claims: Iterable[NodeClaim], nodes: Iterable[Node], occupied: Collection[str], now_seconds: float
    ) -> NodeClaim | None:
        """Returns the NodeClaim that has been idle the longest, if it is overdue.

        `occupied`: the nodes that any worker is bound to, whatever its phase. `now_seconds` is of a monotonic clock.
        """
        node_index = NodeIndex(nodes)
        idle = {
            claim.metadata.uid: claim
            for claim in claims
            if not claim.terminating and node_index.names(claim).isdisjoint(occupied)
        }
        self._since = {uid: self._since.get(uid, now_seconds) for uid in idle}
        uid = min(self._since, key=self._since.__getitem__, default=None)
        if uid is None or now_seconds - self._since[uid] < self._seconds:
            return None
        return idle[uid]


class NodeIndex:
    """Maps NodeClaims to their nodes, even where Karpenter has not recognised the node yet."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._by_instance = {node.spec.provider_id: node.name for node in nodes}

    def names(self, claim: NodeClaim) -> set[str]:
        """Returns the names of the claim's node from Karpenter and from kubelet: usually one, or none."""
        instance = claim.status.provider_id
        return {claim.status.node_name, self._by_instance.get(instance, "") if instance else ""} - {""}
