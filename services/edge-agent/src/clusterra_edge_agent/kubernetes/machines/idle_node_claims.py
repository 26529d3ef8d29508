"""Ghosts: machines that are paid for and carry no worker. Pure.

Karpenter removes an empty node by itself: three minutes after its last pod has gone (`WhenEmpty`, `consolidateAfter`
of the NodePools), a machine that it cannot launch after 5 minutes, one that never registers after 15. That stays so,
and a node that was empty for less is kept on purpose: a worker that is wanted again starts there in a second. A ghost
is what is left over: a NodeClaim that this agent has seen for `seconds` on end, all that time without a node, or with
a node without a worker. Then Karpenter either does not see that the node is of no use, for example since a pod of
somebody else lies on it, or waits for a machine that has never come up.

The time is taken from the first look and by a clock that nobody sets, not from the NodeClaim's age: a node that was
busy for hours is not a ghost as soon as it is idle, and clocks of two machines may differ by minutes.
"""

from collections.abc import Collection, Iterable

from clusterra_edge_agent.kubernetes.machines.resources import Node, NodeClaim


class Ghosts:
    """How long each NodeClaim has been seen without a worker, without a break."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[str, float] = {}

    def forget(self) -> None:
        """Nobody was looking for a while: begin anew."""
        self._since.clear()

    def look(
        self, claims: Iterable[NodeClaim], nodes: Iterable[Node], carrying: Collection[str], now_seconds: float
    ) -> NodeClaim | None:
        """The longest known ghost, if there is any.

        `carrying`: the nodes that any worker is bound to, however far it is. `now_seconds` is of a monotonic clock.
        """
        nodes_of = NodesOf(nodes)
        idle = {
            claim.metadata.uid: claim
            for claim in claims
            if not claim.terminating and nodes_of(claim).isdisjoint(carrying)
        }
        self._since = {uid: self._since.get(uid, now_seconds) for uid in idle}
        uid = min(self._since, key=self._since.__getitem__, default=None)
        if uid is None or now_seconds - self._since[uid] < self._seconds:
            return None
        return idle[uid]


class NodesOf:
    """Which node is whose, also where Karpenter has not recognised it yet."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._by_instance = {node.spec.provider_id: node.name for node in nodes}

    def __call__(self, claim: NodeClaim) -> set[str]:
        """The names of a claim's node: as Karpenter and as kubelet say, usually one; empty when it has none."""
        instance = claim.status.provider_id
        return {claim.status.node_name, self._by_instance.get(instance, "") if instance else ""} - {""}
