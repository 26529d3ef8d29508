"""Removes a tenant that is being deleted: its webhooks, its clusters, its people, at last itself. A tombstone stays.

The tombstone is the tenant's item without anything but who deleted it and when. It keeps the id from others, and
expires.
"""

from collections.abc import Collection
from datetime import timedelta

import structlog
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.nats.bus import BusUnavailable, MessageRejected
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.condition import VersionIs
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.page import Prefix, all_items
from clusterra_runtime.store.store import Delete, Put, Store, StoreError, Update
from clusterra_runtime.store.webhook_records import WEBHOOKS, webhooks_partition
from clusterra_runtime.sweeps.agenda import Bounds, Place
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import (
    ACCOUNTS,
    CLUSTER_DELETIONS,
    CLUSTERS,
    DELETIONS,
    MEMBERSHIPS,
    USER_NAMES,
    budget_alerts_partition,
    budgets_partition,
    bus_credentials_partition,
    deleted_cluster,
    deleted_tenant,
    further_membership_key,
    limit_event_key,
    listed_tenant_key,
    member_key,
    quota_uses_partition,
    quotas_partition,
    scim_state_key,
    tenant_key,
)
from clusterra_gateway.accounts.records import ClusterDeletion, Tenant, UserNameReservation, expiry
from clusterra_gateway.bus.bus_login_requests import BusLoginRequests
from clusterra_gateway.bus_credentials.records import cut_tenant
from clusterra_gateway.http.requests.errors import RequestError
from clusterra_gateway.idempotency.table import IDEMPOTENCY
from clusterra_gateway.templates.records import forget_templates
from clusterra_gateway.tenants.deletions import Deletions
from clusterra_gateway.tenants.removal import ABANDONED, ClusterRemoval, everything, remove_partition, remove_where

log = structlog.get_logger()

TOMBSTONE = timedelta(days=90)
"""How long nobody can take the id of a tenant that was deleted: as long as the archive keeps events by default."""
_OWNED = ("tenant", "member", "member_id", "owner")
"""The attributes that name a tenant or a member."""


class TenantRemoval:
    """The steps of a tenant's deletion. Every step may be repeated, and by another replica."""

    def __init__(self, directory: Directory, deletions: Deletions, logins: BusLoginRequests) -> None:
        self._directory = directory
        self._logins = logins
        self._deletions = deletions

    async def step(self, item: Item) -> None:
        """Take the deletion with this mark one step further. Raises StoreError, RequestError, RpcFailed."""
        tenant_id, deletion = deleted_tenant(item.key), ClusterDeletion.of(item)
        store = self._directory.store
        found = await store.get(ACCOUNTS, tenant_key(tenant_id))
        tenant = None if found is None else Tenant.of(found)
        if found is None or tenant is None or tenant.deletion is None:
            if now() - deletion.since > ABANDONED:
                await store.delete(Delete(ACCOUNTS, item.key, VersionIs(item.version)))
            return
        # Before its last cluster: the events service keeps, for a time, what it knows of webhooks that are there.
        await remove_partition(store, WEBHOOKS, webhooks_partition(tenant_id))
        await cut_tenant(store, self._logins, tenant_id)
        await remove_partition(store, ACCOUNTS, bus_credentials_partition(tenant_id))
        if await self._clusters_left(tenant_id, deletion):
            return
        if removed := await self._removed(tenant_id):
            log.info("tenant_records_removed", tenant=tenant_id, removed=removed)
            return
        if tenant.deletion.removed_at is None:
            deleted = tenant.deletion.model_copy(update={"removed_at": now()})
            tombstone = Tenant(name="", deletion=deleted).attributes()
            ends = expiry(now() + TOMBSTONE)
            await store.write(Put(ACCOUNTS, found.key, tombstone, VersionIs(found.version), ends))
        await store.delete(Delete(ACCOUNTS, listed_tenant_key(tenant_id)))
        await store.delete(Delete(ACCOUNTS, item.key))
        log.info("tenant_deleted", tenant=tenant_id, by=deletion.by)

    async def _clusters_left(self, tenant_id: str, deletion: ClusterDeletion) -> bool:
        """Whether the tenant has clusters. Begins the deletion of those where it has not begun."""
        store, of_tenant = self._directory.store, f"{tenant_id}."
        page = await store.query(ACCOUNTS, CLUSTERS, sort=Prefix(of_tenant))
        for each in page.items:
            await self._deletions.begin_cluster(ClusterRef.from_key(each.key.sk), by=deletion.by, force=deletion.force)
        under_way = await store.query(ACCOUNTS, DELETIONS, sort=Prefix(CLUSTER_DELETIONS.text + of_tenant), limit=1)
        return bool(page.items or under_way.items)

    async def _removed(self, tenant_id: str) -> int:
        """Remove what there is besides the tenant. Its user names, which lead to its people's tokens, go last."""
        store, own = self._directory.store, tenant_key(tenant_id)
        members = await self._members(tenant_id)
        elsewhere = [member for member in members if await self._belongs_elsewhere(member, tenant_id)]
        count = 0
        for member in elsewhere:
            count += await self._shut_out(member)
        kept = frozenset(elsewhere)
        count += await remove_where(
            store, ACCOUNTS, lambda item: item.key.pk != own.pk and _belongs(item, tenant_id, members, kept)
        )
        count += await forget_templates(store, tenant_id)
        limits = (quotas_partition, quota_uses_partition, budgets_partition, budget_alerts_partition)
        others = (limit_event_key(tenant_id, "any").pk, scim_state_key(tenant_id).pk)
        for partition in (*(each(tenant_id) for each in limits), *others):
            count += await remove_partition(store, ACCOUNTS, partition)
        claims = (f"{tenant_id}#", f"{tenant_id}.")
        count += await remove_where(store, IDEMPOTENCY, lambda item: item.key.pk.startswith(claims))
        if count == 0:
            count = await remove_partition(store, ACCOUNTS, own.pk, keep=own.sk)
        return count

    async def _members(self, tenant_id: str) -> frozenset[str]:
        """The ids of all people and service accounts of the tenant: of those that are there, and of all names."""
        names = await self._directory.store.query(ACCOUNTS, tenant_key(tenant_id).pk, sort=USER_NAMES)
        found = {UserNameReservation.of(each).owner for each in names.items}
        async for item in everything(self._directory.store, ACCOUNTS):
            member = item.key.pk.removeprefix("member#")
            if item.key == member_key(member) and item.attributes.get("tenant") == tenant_id:
                found.add(member)
        return frozenset(found)

    async def _belongs_elsewhere(self, member_id: str, tenant_id: str) -> bool:
        """Whether a person who signs in as this member belongs to another tenant, too."""
        page = await self._directory.store.query(ACCOUNTS, member_key(member_id).pk, sort=MEMBERSHIPS)
        return any(item.key != further_membership_key(member_id, tenant_id) for item in page.items)

    async def _shut_out(self, member_id: str) -> int:
        """Disables the member through which a person signs in to other tenants, in place of deleting it: they still
        need it."""
        member = await self._directory.member(member_id)
        if member is None or member.disabled:
            return 0
        await self._directory.store.write(Update(ACCOUNTS, member_key(member_id), set={"disabled": True}))
        return 1


def _belongs(item: Item, tenant_id: str, members: Collection[str], kept: Collection[str]) -> bool:
    """Whether an item outside of the tenant's partition belongs to it. `kept` are members that stay as they are."""
    kind, _, rest = item.key.pk.partition("#")
    match kind:
        case "member" if rest in kept:
            return item.key.sk != "member" and not MEMBERSHIPS.covers(item.key.sk)
        case "member":
            mark = further_membership_key(rest, tenant_id)
            return rest in members or item.key == mark or item.attributes.get("tenant") == tenant_id
        case "domain" | "email" | "agent-key" | "shared-link":
            return item.attributes.get("tenant") == tenant_id
        case "cluster" | "file-event" | "identity-map":
            return rest.startswith(f"{tenant_id}.")
        case "device-code" | "user-code" | "authorization-code":
            return any(item.attributes.get(name) in {tenant_id, *members} for name in _OWNED)
        case "transaction":
            # Of a sign-in that made a member. Tokens of other transactions name nobody.
            return rest.startswith("join-") and rest.split("-")[1] in members
    return False


INTERVAL_SECONDS = 5.0
PAGE = 100
STEP_SECONDS = 300.0
"""A step that takes longer is gone on with in the next round."""
BOUNDS = Bounds(at_once=4)
FAILURES = (StoreError, BusUnavailable, MessageRejected, InvalidMessage, RpcFailed, RequestError)


class DeletionSweep:
    """Takes each deletion of a cluster or a tenant one step further, again and again, until nothing is left of it.

    Every replica does so: no deletion needs a certain one.
    """

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
