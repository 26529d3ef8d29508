"""Looks at the nodes of a cluster: a list only when something changed."""

from clusterra_contracts.identity import now

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.watch.event_queue import EventQueue
from clusterra_proxy.watch.node_facts import PublishedNodeEvents


class NodePoll:
    """The watcher's part for nodes. Facts wait until it is known what was told before (`begin`)."""

    def __init__(self, cluster: Cluster, events: EventQueue) -> None:
        self._cluster = cluster
        self._events = events
        self._published: PublishedNodeEvents | None = None
        self._last_update: int | None = None

    def start_publishing(self, published: PublishedNodeEvents) -> None:
        """Tell facts from now on."""
        self._published = published
        if self._cluster.nodes_observed_at is not None:
            self.publish()

    def publish(self) -> None:
        """Tell what the nodes prove, if it is known what was told before."""
        if self._published is None:
            return
        at = now()
        for node in self._cluster.nodes.values():
            self._events.put(*self._published.take_unpublished(node, at))
        self._events.put(*self._published.take_removed(self._cluster.nodes, at))

    async def poll(self) -> None:
        """Bring the nodes up to date. Raises the errors of `clusterra_proxy.slurmrestd.errors`.

        Slurm's "nothing changed" is reliable for a second after a change, in which it lists them all again.
        """
        requested_at = now()
        listed = await self._cluster.slurmctld.nodes(
            self._cluster.mint.operator(),
            changed_after=self._last_update if self._cluster.nodes_observed_at is not None else None,
        )
        if listed is not None:
            nodes, self._last_update = listed
            self._cluster.nodes = {node.name: node for node in nodes}
            self._cluster.nodes_observed_at = requested_at
            self.publish()
        self._cluster.nodes_observed_at = requested_at
