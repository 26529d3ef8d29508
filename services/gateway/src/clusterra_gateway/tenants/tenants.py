"""The rules of tenants: how one is made and changed, by an operator over HTTP or from a provision file."""

import secrets
from collections.abc import Callable, Collection
from functools import partial

import structlog
from clusterra_contracts.events import AdminFact
from clusterra_contracts.identity import TenantRef, now
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent, VersionIs, compare
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.page import InvalidCursor
from clusterra_runtime.store.store import (
    MAX_TRANSACTION_WRITES,
    ConditionFailed,
    Delete,
    Put,
    TransactionCancelled,
    Update,
    Write,
)

from clusterra_gateway.accounts.admin_events import kept_fact
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, TENANTS, domain_key, listed_tenant_key, tenant_key
from clusterra_gateway.accounts.records import Domain, Mark, Tenant
from clusterra_gateway.http.requests.errors import Conflict, InvalidRequest
from clusterra_gateway.tenants.shares import share_out, shares
from clusterra_gateway.tenants.tenant_record import change_tenant, existing, refuse_deleted

log = structlog.get_logger()

MAX_DOMAINS = MAX_TRANSACTION_WRITES - 3
"""How many domains one change may assign: they are written together with the tenant, its mark and the fact."""


async def list_tenants_of_clusters(directory: Directory) -> None:
    """Mark the tenants of clusters as listed: the release before made tenants without a mark. Raises StoreError.

    One that has no cluster is listed after its next `provision apply`.
    """
    for tenant_id in sorted({ref.tenant for ref in await directory.clusters()}):
        if await directory.tenant(TenantRef(tenant=tenant_id)) is not None:
            await directory.add(listed_tenant_key(tenant_id), Mark())


class Tenants:
    """All tenants of the platform. Whoever uses it has checked that an operator asks."""

    def __init__(self, directory: Directory, registry: Registry) -> None:
        self._directory = directory
        self._registry = registry

    async def page(self, *, limit: int, cursor: str | None) -> tuple[list[tuple[str, Tenant]], str | None]:
        """Tenants in the order of their ids, and a cursor. Raises InvalidRequest for a foreign one."""
        try:
            page = await self._directory.store.query(ACCOUNTS, TENANTS, limit=limit, cursor=cursor)
        except InvalidCursor as error:
            raise InvalidRequest(str(error), hint="leave `cursor` out to begin with the first tenant") from None
        found = [(item.key.sk, await self._directory.tenant(TenantRef(tenant=item.key.sk))) for item in page.items]
        return [(name, tenant) for name, tenant in found if tenant is not None], page.cursor

    async def get(self, tenant_id: str) -> Tenant:
        """A tenant, also while it is being deleted. Raises NotFound."""
        return await existing(self._directory, tenant_id)

    async def create(self, tenant_id: str, tenant: Tenant, *, by: str) -> None:
        """Makes a tenant. The history of its first cluster tells it. Raises Conflict, also for an id that was deleted
        recently."""
        told = AdminFact(kind="tenant.created", actor=by, subject=tenant_id)
        writes: list[Write] = [
            Put(ACCOUNTS, tenant_key(tenant_id), tenant.attributes(), Absent()),
            Update(ACCOUNTS, listed_tenant_key(tenant_id)),
            kept_fact(tenant_id, told, version="1", at=now()),
            *await self._assignments(tenant_id, tenant),
        ]
        try:
            await self._directory.store.transact(writes, token=f"tenant-{secrets.token_hex(16)}")
        except TransactionCancelled as cancelled:
            if (failed := cancelled.reasons[0]) is not None:
                raise _taken(tenant_id, failed.current) from None
            raise Conflict("one of these domains was given to another tenant just now", hint="try again") from None
        log.info("tenant_created", tenant=tenant_id)

    async def change(
        self, tenant_id: str, change: Callable[[Tenant], Tenant], *, by: str, expected: Collection[str] = ()
    ) -> Tenant:
        """Writes what `change` makes of a tenant, and returns that. Raises NotFound, Conflict.

        Its domains get its issuers, and those that it gives up are free again. Its cap is shared out among its clusters
        and those that are `expected`; one that does not suffice for them changes nothing, and so does a domain of
        another tenant. Raises Unavailable where some cluster lacks its new share: the same change again shares it out.
        """

        async def checked(tenant: Tenant) -> Tenant:
            refuse_deleted(tenant_id, tenant)
            changed = change(tenant)
            await shares(self._directory, tenant_id, changed, expected)
            return changed

        fact = AdminFact(kind="tenant.changed", actor=by, subject=tenant_id)
        before, after = await change_tenant(
            self._directory, self._registry, tenant_id, checked, fact, others=partial(self._assignments, tenant_id)
        )
        for name in sorted({*before.domains} - {*after.domains}):
            await self._give_back(tenant_id, name)
        await share_out(self._directory, tenant_id, expected)
        return after

    async def _assignments(self, tenant_id: str, tenant: Tenant) -> list[Write]:
        """The writes that give a tenant's domains to it, with its issuers. Raises Conflict for another tenant's."""
        record, writes = Domain(tenant=tenant_id, issuers=tenant.issuers), list[Write]()
        for name in tenant.domains:
            item = await self._directory.store.get(ACCOUNTS, domain_key(name))
            if item is None:
                writes.append(Put(ACCOUNTS, domain_key(name), record.attributes(), Absent()))
                continue
            known = Domain.of(item)
            if known.tenant != tenant_id:
                raise Conflict(
                    f"domain {name} belongs to tenant {known.tenant}", hint="remove it from that tenant first"
                )
            if known != record:
                condition = VersionIs(item.version)
                writes.append(Update(ACCOUNTS, domain_key(name), set=record.attributes(), condition=condition))
        if len(writes) > MAX_DOMAINS:
            raise InvalidRequest(
                f"{len(writes)} domains of the tenant change at once, and {MAX_DOMAINS} can",
                hint="give some domains up first",
            )
        return writes

    async def _give_back(self, tenant_id: str, domain: str) -> None:
        mine = compare("tenant", "==", tenant_id)
        try:
            await self._directory.store.delete(Delete(ACCOUNTS, domain_key(domain), mine))
        except ConditionFailed:
            log.info("domain_not_given_back", tenant=tenant_id, reason="another tenant has it, or none")


def _taken(tenant_id: str, current: Item | None) -> Conflict:
    if current is not None:
        refuse_deleted(tenant_id, Tenant.of(current))
    return Conflict(f"there is a tenant {tenant_id}", hint="choose another id, or change that tenant")
