"""Tells each cluster's proxy which members may submit nothing, so that their running jobs submit no more.

Only where Clusterra keeps the associations: elsewhere they are told with the quotas that are used up
(`clusterra_gateway.money.quotas.sweep`).
"""

import asyncio
import time

from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.store import Store, StoreError
from clusterra_runtime.sweeps.agenda import Bounds, Place
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper

from clusterra_gateway.accounts.deactivated import deactivated_on
from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.money.quotas.slurm_limits import SlurmLimits

INTERVAL_SECONDS = 15.0
VISIT_SECONDS = 60.0
LEAST_SHARE = 0.7
"""The part of the interval for which a visited cluster is not due again: events of others begin rounds, too."""
BOUNDS = Bounds(at_once=8)
WAKING = frozenset({"member.changed", "member.deleted", "user.created"})
"""The events of who is deactivated, or active again."""


class DeactivationSweep:
    """Visits each cluster every few seconds, and at once when a member of its tenant is changed."""

    def __init__(self, store: Store, slurm: SlurmRequests, registry: Registry) -> None:
        self._store = store
        self._limits = SlurmLimits(slurm)
        self._registry = registry
        self._due: dict[ClusterRef, float] = {}
        self._woken = asyncio.Event()

    def on_event(self, ref: ClusterRef, _event: Event) -> None:
        """Visit this cluster soon."""
        self._due.pop(ref, None)
        self._woken.set()

    def sweeper(self) -> Sweeper[ClusterRef]:
        """Visits the clusters that are due, each once at a time."""
        sweep = Sweep(
            "deactivations",
            self._listed,
            self._visit,
            lambda ref: Place(ref.tenant, ref.cluster),
            (StoreError,),
            self._woken,
        )
        return Sweeper(sweep, Pace(INTERVAL_SECONDS, VISIT_SECONDS), BOUNDS)

    async def _listed(self) -> list[ClusterRef]:
        kept = [ref for ref, binding in self._registry.clusters.items() if binding.keeps_associations]
        self._due = {ref: self._due[ref] for ref in kept if ref in self._due}
        at = time.monotonic()
        return [ref for ref in kept if self._due.get(ref, at) <= at]

    async def _visit(self, ref: ClusterRef) -> None:
        self._due[ref] = time.monotonic() + LEAST_SHARE * INTERVAL_SECONDS
        binding = self._registry.get(ref)
        if binding is not None:
            await self._limits.keep(ref, binding, (), await deactivated_on(self._store, ref.tenant, binding))
