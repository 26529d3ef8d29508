"""Copies clusters from the gateway's record to the `registry` bucket, where the other services read them."""

import asyncio
import random

import structlog
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.nats.binding import InvalidBinding
from clusterra_runtime.nats.bus import BusUnavailable, Client, MessageRejected
from clusterra_runtime.nats.registry import Registry, put_binding
from clusterra_runtime.store.store import StoreError

from clusterra_gateway.accounts.directory import Directory

log = structlog.get_logger()

INTERVAL_SECONDS = 30.0


class Projection:
    """Puts each binding that the registry lacks, cannot read or has in an older version: also all of a lost bucket."""

    def __init__(self, directory: Directory, client: Client, registry: Registry) -> None:
        self._directory = directory
        self._client = client
        self._registry = registry

    async def project(self, only: ClusterRef | None = None) -> list[ClusterRef]:
        """Puts what is missing, unreadable or older, of all clusters or of `only` one, and returns those.

        Raises StoreError, BusUnavailable.
        """
        outdated = []
        leaving = await self._directory.leaving()
        for ref, binding in (await self._recorded(only)).items():
            if ref in leaving:
                continue
            projected = self._registry.get(ref)
            unreadable = ref in self._registry.unreadable
            if projected is None or unreadable or projected.version < binding.version:
                try:
                    if not await put_binding(self._client, ref, binding):
                        continue
                except (InvalidBinding, MessageRejected) as error:
                    # It stays as it is in the registry, and all other clusters are put.
                    log.error(  # noqa: TRY400 - the message is complete
                        "cluster_not_projected", tenant=ref.tenant, cluster=ref.cluster, reason=str(error)
                    )
                    continue
                outdated.append(ref)
                log.info("cluster_projected", tenant=ref.tenant, cluster=ref.cluster, version=binding.version)
        return outdated

    async def _recorded(self, only: ClusterRef | None) -> dict[ClusterRef, ClusterBinding]:
        if only is None:
            return await self._directory.clusters()
        binding = await self._directory.cluster(only)
        return {} if binding is None else {only: binding}

    async def run(self) -> None:
        """Projects every 30 s."""
        while True:
            # Replicas that were started together must not read at the same time.
            await asyncio.sleep(INTERVAL_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311
            try:
                await self.project()
            except (StoreError, BusUnavailable) as error:
                log.warning("clusters_not_projected", reason=str(error))
