"""Whether a tenant exists, is being deleted, or is a tombstone."""

from clusterra_contracts.identity import TenantRef

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.records import Tenant
from clusterra_gateway.http.requests.errors import Conflict, NotFound


async def existing(directory: Directory, tenant_id: str) -> Tenant:
    """The tenant, also while it is being deleted. Raises NotFound."""
    tenant = await directory.tenant(TenantRef(tenant=tenant_id))
    if tenant is None or (tenant.deletion is not None and tenant.deletion.removed_at is not None):
        raise NotFound(f"there is no tenant {tenant_id}", hint="GET /v1/tenants lists them all")
    return tenant


def refuse_deleted(tenant_id: str, tenant: Tenant) -> None:
    """Raises Conflict for a tenant that is being deleted, and for a tombstone."""
    if tenant.deletion is None:
        return
    if tenant.deletion.removed_at is not None:
        raise Conflict(f"the tenant {tenant_id} was deleted of late", hint="choose another id")
    raise Conflict(f"the tenant {tenant_id} is being deleted", hint="wait until it is gone, and choose another id")
