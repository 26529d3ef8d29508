"""Looks at the nodes of a cluster: a list only when something changed."""

from clusterra_contracts.identity import now

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.watch.event_queue import Teller
from clusterra_proxy.watch.node_facts import NodeHistory


class NodeWatch:
    """The watcher's part for nodes. Facts wait until it is known what was told before (`begin`)."""

    def __init__(self, cluster: Cluster, teller: Teller) -> None:
        self._cluster = cluster
        self._teller = teller
        self._told: NodeHistory | None = None
        self._updated: int | None = None

    def begin(self, told: NodeHistory) -> None:
        """Tell facts from now on."""
        self._told = told
        if self._cluster.nodes_seen_at is not None:
            self.tell()

    def tell(self) -> None:
        """Tell what the nodes prove, if it is known what was told before."""
        if self._told is None:
            return
        at = now()
        for node in self._cluster.nodes.values():
            self._teller.tell(*self._told.news(node, at))
        self._teller.tell(*self._told.removed(self._cluster.nodes, at))

    async def look(self) -> None:
        """Bring the nodes up to date. Raises the errors of `clusterra_proxy.slurmrestd.errors`.

        Slurm's "nothing changed" is reliable for a second after a change, in which it lists them all again.
        """
        asked_at = now()
        listed = await self._cluster.controller.nodes(
            self._cluster.mint.operator(),
            changed_after=self._updated if self._cluster.nodes_seen_at is not None else None,
        )
        if listed is not None:
            nodes, self._updated = listed
            self._cluster.nodes = {node.name: node for node in nodes}
            self._cluster.nodes_seen_at = asked_at
            self.tell()
        self._cluster.nodes_seen_at = asked_at
