"""Writes a changed quota or budget, and with it the event for the audit.

The event stands in an item of its own, because a deleted item cannot hold it. Both are one transaction.
"""

import secrets
from datetime import timedelta

from clusterra_contracts.events import AdminFact, AdminKind
from clusterra_contracts.identity import now
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.store import Delete, Put, TransactionCancelled

from clusterra_gateway.accounts.admin_events import tenant_events
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, limit_event_key
from clusterra_gateway.accounts.records import Member, expiry
from clusterra_gateway.http.requests.errors import Conflict
from clusterra_gateway.money.quotas.records import QuotaScope, subject_of

_KEPT = timedelta(days=2)
"""How long an item whose event was sent stays."""


class LimitChanges:
    """The writes of quotas and budgets."""

    def __init__(self, directory: Directory, registry: Registry) -> None:
        self._directory = directory
        self._registry = registry

    async def write(
        self, actor: Member, kind: AdminKind, scope: QuotaScope, write: Put | Delete, detail: str = ""
    ) -> None:
        """Writes a change with its event. Raises Conflict after a conflicting write, and StoreUnavailable."""
        version = secrets.token_hex(8)
        fact = AdminFact(kind=kind, actor=actor.user, subject=subject_of(scope), detail=detail)
        events = tenant_events(self._registry, actor.tenant, fact, version=version)
        key = limit_event_key(actor.tenant, version)
        carrier = Put(ACCOUNTS, key, {}, Absent(), expiry(now() + _KEPT))
        try:
            await self._directory.outbox.transact(carrier, events.messages, [write, *events.kept], token=version)
        except TransactionCancelled:
            raise Conflict("somebody else has just changed it", hint="read it and decide again") from None
