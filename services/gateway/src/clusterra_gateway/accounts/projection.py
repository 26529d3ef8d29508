"""From the gateway's record to the `registry` bucket, where the other services read of clusters."""

import asyncio

import structlog
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats.bus import BusUnavailable, Client
from clusterra_runtime.nats.registry import Registry, put_binding
from clusterra_runtime.store.store import StoreError

from clusterra_gateway.accounts.directory import Directory

log = structlog.get_logger()

AGAIN_SECONDS = 30.0


class Projection:
    """Puts what the registry lacks or has in an older version; the bucket can be lost and is made again."""

    def __init__(self, directory: Directory, client: Client, registry: Registry) -> None:
        self._directory = directory
        self._client = client
        self._registry = registry

    async def once(self) -> list[ClusterRef]:
        """Compare and put; which clusters were put. Raises StoreError, BusUnavailable."""
        behind = []
        for ref, binding in (await self._directory.clusters()).items():
            projected = self._registry.get(ref)
            if projected is None or projected.version < binding.version:
                await put_binding(self._client, ref, binding)
                behind.append(ref)
                log.info("cluster_projected", tenant=ref.tenant, cluster=ref.cluster, version=binding.version)
        return behind

    async def run(self) -> None:
        """Do it every 30 s."""
        while True:
            await asyncio.sleep(AGAIN_SECONDS)
            try:
                await self.once()
            except (StoreError, BusUnavailable) as error:
                log.warning("clusters_not_projected", reason=str(error))
