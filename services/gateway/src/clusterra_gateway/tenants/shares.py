"""Divides a tenant's cap, in USD per hour, among its clusters, and writes each its share.

Each cluster keeps within its own share, whichever scaler decides for it. So the clusters together never cost more than
the tenant's cap: no two decisions can spend the same dollar. A share that one cluster does not use is not available to
the others.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from math import inf

from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.store import ConditionFailed

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.records import Tenant
from clusterra_gateway.http.requests.errors import Conflict, NotFound, Unavailable
from clusterra_gateway.tenants.tenant_record import change_tenant, existing


def cluster_caps(usd_per_hour: float, caps: Mapping[str, float | None]) -> dict[str, float]:
    """The cap of each cluster in USD per hour: its own where it has one; the others share the rest equally.

    Raises ValueError where the tenant's cap does not suffice for all.
    """
    own = {cluster: cap for cluster, cap in caps.items() if cap is not None}
    left = usd_per_hour - sum(own.values())
    without = [cluster for cluster, cap in caps.items() if cap is None]
    if left < 0 or (without and left == 0):
        others = f", and nothing is left for {', '.join(without)}" if without else ""
        raise ValueError(
            f"the clusters' own caps take {sum(own.values()):g} USD per hour of the tenant's {usd_per_hour:g}{others}:"
            " raise the tenant's cap or lower usd_per_hour in the clusters' policies"
        )
    return own | {cluster: left / len(without) for cluster in without}


async def shares(
    directory: Directory, tenant_id: str, tenant: Tenant, expected: Collection[str] = ()
) -> dict[str, float | None]:
    """The cap in USD per hour of each cluster that exists, and of those `expected` soon; None for no cap.

    Raises Conflict where the tenant's cap does not suffice.
    """
    own: dict[str, float | None] = {}
    for name, cap in tenant.own_caps.items():
        ref = ClusterRef(tenant=tenant_id, cluster=name)
        if name in expected or await directory.cluster(ref) is not None:
            own[name] = cap
    if tenant.usd_per_hour is None:
        return own
    try:
        return {**cluster_caps(tenant.usd_per_hour, own)}
    except ValueError as error:
        raise Conflict(str(error), hint="change the cap of the tenant or of a cluster") from None


async def share_out(directory: Directory, tenant_id: str, expected: Collection[str] = ()) -> None:
    """Writes the share of each cluster that exists. Raises NotFound, Conflict; Unavailable for some unwritten shares.

    Writes the shares that shrink first, so that the clusters together never exceed the tenant's cap. Before a cluster
    is bound, it is `expected`: the others shrink before it may spend anything.
    """
    caps = await shares(directory, tenant_id, await existing(directory, tenant_id), expected)
    changes: list[tuple[float, ClusterRef]] = []
    for name, cap in caps.items():
        ref = ClusterRef(tenant=tenant_id, cluster=name)
        binding = await directory.cluster(ref)
        if binding is not None and binding.policy.usd_per_hour != cap:
            changes.append((_amount(cap) - _amount(binding.policy.usd_per_hour), ref))
    for _, ref in sorted(changes, key=lambda change: change[0]):
        with suppress(NotFound):  # removed just now: `give_share_back` follows
            await _set_cap(directory, ref, caps[ref.cluster])


async def give_share_back(directory: Directory, registry: Registry, ref: ClusterRef) -> None:
    """Gives the other clusters of a tenant the share of one that is gone. A tenant that is gone has none to give."""

    async def without(tenant: Tenant) -> Tenant:
        left = {name: cap for name, cap in tenant.own_caps.items() if name != ref.cluster}
        return tenant.model_copy(update={"own_caps": left})

    try:
        _, tenant = await change_tenant(directory, registry, ref.tenant, without)
    except NotFound:
        return
    if tenant.usd_per_hour is not None:
        await share_out(directory, ref.tenant)


def _amount(cap: float | None) -> float:
    return inf if cap is None else cap


async def _set_cap(directory: Directory, ref: ClusterRef, usd_per_hour: float | None) -> None:
    def capped(current: ClusterBinding | None) -> ClusterBinding:
        if current is None:
            raise NotFound(f"the cluster {ref} has just been removed", hint="list the clusters")
        policy = current.policy.model_copy(update={"usd_per_hour": usd_per_hour})
        return current.model_copy(update={"policy": policy})

    try:
        await directory.change_cluster(ref, capped)
    except ConditionFailed:
        raise Unavailable(f"others are changing the cluster {ref}", hint="ask for the same change again") from None
