"""The archived events of one cluster, or of the clusters of a tenant as those of one."""

from collections.abc import Awaitable, Callable, Collection
from functools import partial

from clusterra_contracts.identity import ClusterRef, TenantRef
from clusterra_contracts.rpc.history import MAX_CLUSTERS, HistoryPage, ReadHistory, ReadTenantHistory
from clusterra_runtime.nats.registry import Registry

from clusterra_gateway.bus.requests import HistoryRequests
from clusterra_gateway.http.requests.errors import InvalidRequest

type Pages = Callable[[ReadHistory], Awaitable[HistoryPage]]
"""Reads a page of the archive. Raises RpcFailed."""


def of_cluster(archive: HistoryRequests, ref: ClusterRef) -> Pages:
    """The pages of one cluster."""
    return partial(archive.history, ref)


def of_tenant(archive: HistoryRequests, registry: Registry, tenant: TenantRef, wanted: Collection[str] | None) -> Pages:
    """The pages of all clusters of a tenant, or of those that are wanted. Raises InvalidRequest."""
    names = sorted(ref.cluster for ref in registry.clusters if ref.tenant == tenant.tenant)
    for name in wanted or ():
        if name not in names:
            raise InvalidRequest(f"there is no cluster {name!r}", hint="GET /v1/clusters lists yours")
    chosen = tuple(name for name in names if wanted is None or name in wanted)
    if len(chosen) > MAX_CLUSTERS:
        raise InvalidRequest(f"these are more than {MAX_CLUSTERS} clusters", hint="name some of them by `cluster`")

    async def pages(read: ReadHistory) -> HistoryPage:
        if not chosen:
            return HistoryPage(events=(), position=read.complete_to, follows_to=read.follows)
        return await archive.tenant_history(tenant, ReadTenantHistory(clusters=chosen, read=read))

    return pages
