"""Gives each cluster of a tenant its share of the tenant's cap, in USD per hour."""

from math import inf

from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.registry import ClusterBinding

from clusterra_gateway.accounts.caps import cluster_caps
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.records import Tenant
from clusterra_gateway.http.requests.errors import Conflict
from clusterra_gateway.tenants.tenant_state import existing


async def shares(
    directory: Directory, tenant_id: str, tenant: Tenant, new_cluster: str | None = None
) -> dict[str, float | None]:
    """The cap in USD per hour of each cluster that exists, and of one that is about to; None for no cap.

    Raises Conflict where the tenant's cap does not suffice.
    """
    own: dict[str, float | None] = {}
    for name, cap in tenant.own_caps.items():
        ref = ClusterRef(tenant=tenant_id, cluster=name)
        if name == new_cluster or await directory.cluster(ref) is not None:
            own[name] = cap
    if tenant.usd_per_hour is None:
        return own
    try:
        return {**cluster_caps(tenant.usd_per_hour, own)}
    except ValueError as error:
        raise Conflict(str(error), hint="change the cap of the tenant or of a cluster") from None


async def share_out(directory: Directory, tenant_id: str, new_cluster: str | None = None) -> list[str]:
    """Writes the share of each cluster. Returns what changed, in words. Raises Conflict.

    Writes the shares that shrink first, so that the clusters together never exceed the tenant's cap.
    """
    caps = await shares(directory, tenant_id, await existing(directory, tenant_id), new_cluster)
    changes: list[tuple[float, ClusterRef]] = []
    for name, cap in caps.items():
        ref = ClusterRef(tenant=tenant_id, cluster=name)
        binding = None if name == new_cluster else await directory.cluster(ref)
        if binding is not None and binding.policy.usd_per_hour != cap:
            changes.append((_amount(cap) - _amount(binding.policy.usd_per_hour), ref))
    done = []
    for _, ref in sorted(changes, key=lambda change: change[0]):
        version = await _set_cap(directory, ref, caps[ref.cluster])
        done.append(f"cluster {ref}: version {version}")
    return done


def _amount(cap: float | None) -> float:
    return inf if cap is None else cap


async def _set_cap(directory: Directory, ref: ClusterRef, usd_per_hour: float | None) -> int | None:
    def capped(current: ClusterBinding | None) -> ClusterBinding:
        if current is None:
            raise Conflict(f"the cluster {ref} has just been removed", hint="try again")
        policy = current.policy.model_copy(update={"usd_per_hour": usd_per_hour})
        return current.model_copy(update={"policy": policy})

    return await directory.change_cluster(ref, capped)
