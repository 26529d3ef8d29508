"""The record of a tenant: read, refused while it is being deleted, and changed together with the fact about it."""

from collections.abc import Awaitable, Callable, Sequence

from clusterra_contracts.events import AdminFact
from clusterra_contracts.identity import TenantRef
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import VersionIs
from clusterra_runtime.store.optimistic_write import write_optimistically
from clusterra_runtime.store.store import Update, Write

from clusterra_gateway.accounts.admin_events import AuditedWrites
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, tenant_key
from clusterra_gateway.accounts.records import Tenant
from clusterra_gateway.http.requests.errors import Conflict, NotFound


async def existing(directory: Directory, tenant_id: str) -> Tenant:
    """The tenant, also while it is being deleted. Raises NotFound."""
    return _there(tenant_id, await directory.tenant(TenantRef(tenant=tenant_id)))


def refuse_deleted(tenant_id: str, tenant: Tenant) -> None:
    """Raises Conflict for a tenant that is being deleted, and for a tombstone."""
    if tenant.deletion is None:
        return
    if tenant.deletion.removed_at is not None:
        raise Conflict(f"the tenant {tenant_id} was deleted of late", hint="choose another id")
    raise Conflict(f"the tenant {tenant_id} is being deleted", hint="wait until it is gone, and choose another id")


async def change_tenant(
    directory: Directory,
    registry: Registry,
    tenant_id: str,
    change: Callable[[Tenant], Awaitable[Tenant]],
    told: AdminFact | None = None,
    *,
    others: Callable[[Tenant], Awaitable[Sequence[Write]]] | None = None,
) -> tuple[Tenant, Tenant]:
    """Writes what `change` makes of a tenant. Returns the tenant before and after; the same one where nothing changes.

    The writes that `others` makes for the changed tenant happen in the same transaction.

    The fact is written with it, for the histories of its clusters, except where only caps of clusters have changed:
    these have events of their own. After a conflicting write, `change` is applied to what was written, so neither
    writer undoes the other. Raises NotFound, Conflict, and what `change` raises.
    """
    key = tenant_key(tenant_id)

    async def attempt() -> tuple[Tenant, Tenant]:
        item = await directory.store.get(ACCOUNTS, key)
        before = _there(tenant_id, None if item is None else Tenant.of(item))
        after = await change(before)
        together = [] if others is None else await others(after)
        if item is None or (after == before and not together):
            return before, before
        update = Update(ACCOUNTS, key, set=after.attributes(), condition=VersionIs(item.version))
        only_caps = after == before.model_copy(update={"own_caps": after.own_caps})
        facts = [] if told is None or only_caps else [told]
        if facts or together:
            await AuditedWrites(directory, registry).write(tenant_id, facts, update, together)
        else:
            await directory.store.write(update)
        return before, after

    contended = Conflict(f"others are changing the tenant {tenant_id}", hint="try again")
    return await write_optimistically(attempt, contended=contended)


def _there(tenant_id: str, tenant: Tenant | None) -> Tenant:
    if tenant is None or (tenant.deletion is not None and tenant.deletion.removed_at is not None):
        raise NotFound(f"there is no tenant {tenant_id}", hint="GET /v1/tenants lists them all")
    return tenant
