"""The conditions of a tenant's clusters, read from the bucket in which the proxy keeps them."""

import asyncio
from collections.abc import Mapping

import structlog
from clusterra_contracts.bus.envelope import InvalidMessage, decode
from clusterra_contracts.bus.topology import CONDITIONS
from clusterra_contracts.condition import ClusterCondition
from clusterra_contracts.identity import ClusterRef, Id
from clusterra_runtime.nats.bus import BusUnavailable, Client
from clusterra_runtime.nats.direct import replay

log = structlog.get_logger()

READ_SECONDS = 2.0

_PREFIX = f"$KV.{CONDITIONS.name}."


class Conditions:
    """Reads conditions at each request: there are few entries, because a healthy cluster needs none."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def of_tenant(self, tenant: Id) -> Mapping[ClusterRef, ClusterCondition] | None:
        """The stored conditions of a tenant's clusters; None when they cannot be read."""
        if not self._client.is_connected:
            return None
        try:
            async with asyncio.timeout(READ_SECONDS):
                return await self._read(tenant)
        except (BusUnavailable, TimeoutError) as error:
            log.warning("conditions_not_read", tenant=tenant, reason=str(error) or type(error).__name__)
            return None

    async def _read(self, tenant: Id) -> dict[ClusterRef, ClusterCondition]:
        conditions: dict[ClusterRef, ClusterCondition] = {}
        async for entry in replay(self._client, f"KV_{CONDITIONS.name}", f"{_PREFIX}{tenant}.*"):
            try:
                ref = ClusterRef.from_key(entry.subject.removeprefix(_PREFIX))
                conditions[ref] = decode(ClusterCondition, entry.body, dict(entry.headers))
            except (InvalidMessage, ValueError) as error:
                log.warning("condition_unreadable", subject=entry.subject, reason=str(error))
        return conditions
