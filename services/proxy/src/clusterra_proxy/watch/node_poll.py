"""Polls the nodes of a cluster: a list is transferred only when something has changed."""

from collections.abc import Mapping

from clusterra_contracts.identity import now

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.slurmrestd.records import NodeRecord
from clusterra_proxy.watch.event_queue import EventQueue
from clusterra_proxy.watch.node_facts import PublishedNodeEvents


class NodePoll:
    """The watcher's part for nodes. Queues no events before the published ones are known (`start_publishing`)."""

    def __init__(self, cluster: Cluster, events: EventQueue) -> None:
        self._cluster = cluster
        self._events = events
        self._published: PublishedNodeEvents | None = None
        self._last_update: int | None = None

    def start_publishing(self, published: PublishedNodeEvents) -> None:
        """Queue events from now on."""
        self._published = published
        if self._cluster.nodes_observed_at is not None:
            self.queue_events()

    def queue_events(self) -> None:
        """Queue the unpublished events that the nodes prove, once the published ones are known."""
        if self._published is None or not self._events.accepts:
            return
        at = now()
        for node in self._cluster.nodes.values():
            self._events.put(*self._published.take_unpublished(node, at))
        self._events.put(*self._published.take_removed(self._cluster.nodes, at))

    async def poll(self) -> None:
        """Update the nodes. Raises the errors of `clusterra_proxy.slurmrestd.errors`.

        Slurm's "not modified" is reliable: for a second after a change it lists all nodes again.
        """
        requested_at = now()
        listed = await self._cluster.slurmctld.nodes(
            self._cluster.mint.operator_token(),
            changed_after=self._last_update if self._cluster.nodes_observed_at is not None else None,
        )
        if listed is not None:
            nodes, self._last_update, self._cluster.unidentified_nodes = listed
            named = {node.name: node for node in nodes}
            self._cluster.nodes = (self._unnamed(named) if self._cluster.unidentified_nodes else {}) | named
            self._cluster.nodes_version += 1
            self._cluster.nodes_observed_at = requested_at
            self.queue_events()
        self._cluster.nodes_observed_at = requested_at

    def _unnamed(self, named: Mapping[str, NodeRecord]) -> dict[str, NodeRecord]:
        """Return the nodes that are missing in a list with unreadable names: any of them may still be there."""
        missing = (node for name, node in self._cluster.nodes.items() if name not in named)
        return {node.name: node.model_copy(update={"unreadable": (NodeRecord.KEY,)}) for node in missing}
