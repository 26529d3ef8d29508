"""Clusters in the gateway's record: paused and resumed there, and copied to the registry, which other services read.

Admins pause and resume over HTTP, and operators by `clusterra-admin provision pause`.
"""

from typing import Literal

import structlog
from clusterra_contracts.events import AdminFact
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.nats.binding import InvalidBinding
from clusterra_runtime.nats.bus import BusUnavailable, Client, MessageRejected
from clusterra_runtime.nats.registry import Registry, put_binding
from clusterra_runtime.store.store import ConditionFailed, StoreError
from clusterra_runtime.sweeps.agenda import Bounds, Place
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper

from clusterra_gateway.accounts.admin_events import cluster_event
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.http.requests.errors import Conflict, NotFound

log = structlog.get_logger()

INTERVAL_SECONDS = 30.0
BOUNDS = Bounds(at_once=4)

type _Recorded = tuple[ClusterRef, ClusterBinding]


class Projection:
    """Puts each binding that the registry lacks, cannot read or has in an older version: also all of a lost bucket."""

    def __init__(self, directory: Directory, client: Client, registry: Registry) -> None:
        self._directory = directory
        self._client = client
        self._registry = registry

    async def project(self, tenant: str | None = None) -> list[ClusterRef]:
        """Puts what is missing, unreadable or older, of the clusters of one tenant or of all, and returns those.

        Raises StoreError, BusUnavailable.
        """
        return [ref for ref, binding in await self._outdated(tenant) if await self._put(ref, binding)]

    async def project_now(self, tenant: str) -> None:
        """Projects the clusters of a changed tenant. Where NATS is away, the sweep does it. Raises StoreError."""
        try:
            await self.project(tenant)
        except BusUnavailable as error:
            log.warning("clusters_not_projected", tenant=tenant, reason=str(error))

    def sweeper(self) -> Sweeper[_Recorded]:
        """Projects every 30 s what the registry has lost, or what a gateway that died has not projected."""
        sweep = Sweep("projection", self._outdated, lambda each: self._put(*each), _place, (StoreError, BusUnavailable))
        return Sweeper(sweep, Pace(INTERVAL_SECONDS), BOUNDS)

    async def _outdated(self, tenant: str | None = None) -> list[_Recorded]:
        """Those that the registry lacks come last: the others of a tenant may spend less when a cluster comes."""
        leaving = await self._directory.leaving()
        outdated = [
            (ref, binding)
            for ref, binding in (await self._directory.clusters(tenant)).items()
            if ref not in leaving and self._is_outdated(ref, binding)
        ]
        return sorted(outdated, key=lambda each: self._registry.get(each[0]) is None)

    def _is_outdated(self, ref: ClusterRef, binding: ClusterBinding) -> bool:
        projected = self._registry.get(ref)
        return projected is None or ref in self._registry.unreadable or projected.version < binding.version

    async def _put(self, ref: ClusterRef, binding: ClusterBinding) -> bool:
        """Whether this put the binding. One that is refused stays as it is in the registry."""
        try:
            if not await put_binding(self._client, ref, binding):
                return False
        except (InvalidBinding, MessageRejected) as error:
            log.error(  # noqa: TRY400 - the message is complete
                "cluster_not_projected", tenant=ref.tenant, cluster=ref.cluster, reason=str(error)
            )
            return False
        log.info("cluster_projected", tenant=ref.tenant, cluster=ref.cluster, version=binding.version)
        return True


def _place(recorded: _Recorded) -> Place:
    return Place(recorded[0].tenant, recorded[0].cluster)


ClusterState = Literal["active", "paused"]


async def set_cluster_state(directory: Directory, ref: ClusterRef, state: ClusterState, *, actor: str) -> bool:
    """Write a cluster's state, with an event that names the actor. Returns whether that changed anything.

    A paused cluster buys no workers; its jobs wait, and those that run go on. The services learn of it by the next
    projection. Raises NotFound, Conflict, StoreError.
    """

    def in_state(current: ClusterBinding | None) -> ClusterBinding:
        if current is None:
            raise NotFound(
                f"there is no cluster {ref} in the record",
                hint="GET /v1/clusters and `clusterra-admin provision list` name them all",
            )
        if current.deleting:
            raise Conflict(f"the cluster {ref} is being deleted", hint="a deletion cannot be taken back")
        return current.model_copy(update={"state": state})

    fact = AdminFact(
        kind="cluster.paused" if state == "paused" else "cluster.resumed", actor=actor, subject=ref.cluster
    )
    told = cluster_event(ref, fact, version=now().isoformat())
    try:
        return await directory.change_cluster(ref, in_state, changed=[told]) is not None
    except ConditionFailed:
        raise Conflict(f"others are changing the cluster {ref}", hint="try again") from None
