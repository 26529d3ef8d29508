"""Goes on with deletions until nothing is left. Every replica does so: no deletion needs a certain one."""

from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_runtime.nats.bus import BusUnavailable, MessageRejected
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.page import all_items
from clusterra_runtime.store.store import Store, StoreError
from clusterra_runtime.sweeps.agenda import Bounds, Place
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper

from clusterra_gateway.accounts.keyspace import ACCOUNTS, CLUSTER_DELETIONS, DELETIONS, deleted_cluster, deleted_tenant
from clusterra_gateway.http.requests.errors import RequestError
from clusterra_gateway.tenants.removal import ClusterRemoval
from clusterra_gateway.tenants.tenant_removal import TenantRemoval

INTERVAL_SECONDS = 5.0
PAGE = 100
STEP_SECONDS = 300.0
"""A step that takes longer is gone on with in the next round."""
BOUNDS = Bounds(at_once=4)
FAILURES = (StoreError, BusUnavailable, MessageRejected, InvalidMessage, RpcFailed, RequestError)


class DeletionSweep:
    """Takes each deletion one step further, again and again."""

    def __init__(self, store: Store, clusters: ClusterRemoval, tenants: TenantRemoval) -> None:
        self._store = store
        self._clusters = clusters
        self._tenants = tenants

    def sweeper(self) -> Sweeper[Item]:
        """Takes all of them one step further every few seconds, some at a time."""
        sweep = Sweep("deletions", self.marks, self.step, _place, FAILURES)
        return Sweeper(sweep, Pace(INTERVAL_SECONDS, STEP_SECONDS), BOUNDS)

    async def marks(self) -> list[Item]:
        """The marks of all deletions under way. Raises StoreError."""
        pages = all_items(lambda after: self._store.query(ACCOUNTS, DELETIONS, limit=PAGE, cursor=after))
        return [mark async for mark in pages]

    async def step(self, mark: Item) -> None:
        """Take the deletion of this mark one step further. Raises FAILURES, ValidationError."""
        removal = self._clusters if CLUSTER_DELETIONS.covers(mark.key.sk) else self._tenants
        await removal.step(mark)


def _place(mark: Item) -> Place:
    if not CLUSTER_DELETIONS.covers(mark.key.sk):
        return Place(deleted_tenant(mark.key))
    ref = deleted_cluster(mark.key)
    return Place(ref.tenant, ref.cluster)
