"""Stands in for the services of a cluster: each answers on a real NATS as the contracts say."""

from answering import Answering
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats.bus import Client
from edge_stand_in import EdgeStandIn
from events_stand_in import EventsStandIn
from proxy_stand_in import ProxyStandIn
from scaler_stand_in import ScalerStandIn


class ClusterStandIn(ProxyStandIn):
    """The proxy with the jobs, and the services beside it."""

    def __init__(self, ref: ClusterRef) -> None:
        super().__init__(ref)
        self.edge = EdgeStandIn(self.jobs)
        self.scaler = ScalerStandIn(self)
        self.events = EventsStandIn(self)
        self._answering = Answering()
        self._client: Client | None = None

    async def serve(self, client: Client) -> None:
        self._client = client
        await self._answering.begin(
            client,
            *self.served(client),
            *self.edge.served(client, self.ref),
            *self.scaler.served(client, self.ref),
            *self.events.served(client, self.ref),
        )

    async def stop_serving(self) -> None:
        if self._client is not None:
            await self._answering.end(self._client)
