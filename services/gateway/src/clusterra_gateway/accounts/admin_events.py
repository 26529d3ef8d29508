"""Writes facts about accounts into the histories of clusters: with the write that makes them true, or later.

The archive has a history for each cluster. Where a tenant has no cluster yet, or very many, a fact about it or its
people waits in the record, at most `KEPT_DAYS`, and keeps its own time.
"""

import secrets
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import encode
from clusterra_contracts.events import AdminFact, Fact, event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import BusUnavailable, Client, MessageRejected
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.outbox_item import OutboxMessage
from clusterra_runtime.store.page import all_items
from clusterra_runtime.store.store import Delete, Put, Store, StoreError, Update, Write
from clusterra_runtime.sweeps.agenda import Bounds, Place
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, KEPT_EVENTS, kept_event_key, tenant_key
from clusterra_gateway.accounts.records import expiry

log = structlog.get_logger()

SERVICE = "gateway"
KEPT_DAYS = 90
"""As long as the archive keeps events by default."""
INTERVAL_SECONDS = 5.0
TELL_SECONDS = 300.0
"""How long telling the facts of one tenant may take. What is left is told in the next round."""
BOUNDS = Bounds(at_once=4)
MAX_TOLD_AT_ONCE = 50
"""Clusters whose events one write may hold: an item of DynamoDB has room for some 500."""


def cluster_event(ref: ClusterRef, fact: Fact, *, version: str, at: datetime | None = None) -> OutboxMessage:
    """The event of a fact in one cluster's history, by default of this moment.

    `version` distinguishes it from other events of the same kind and subject.
    """
    event = event_of(SERVICE, ref, fact, version=version, time=at or now())
    return OutboxMessage.of(event.id, subjects.event(ref, fact.kind), event)


def are_told_at_once(clusters: int) -> bool:
    """Whether a write for a tenant with so many clusters holds the events for all of them."""
    return 0 < clusters <= MAX_TOLD_AT_ONCE


def kept_fact(tenant: str, fact: AdminFact, *, version: str, at: datetime) -> Put:
    """The write that keeps a fact. `version` distinguishes it from others of the same kind and subject."""
    key = kept_event_key(tenant, at, f"{fact.subject}:{version}:{fact.kind}")
    attributes = {"fact": fact.model_dump_json(), "fact_version": version, "at": at.isoformat()}
    return Put(ACCOUNTS, key, attributes, Absent(), expiry(at + timedelta(days=KEPT_DAYS)))


class AuditedWrites:
    """Writes changes of tenants, each together with its facts for the histories of the tenant's clusters."""

    def __init__(self, directory: Directory, registry: Registry) -> None:
        self._outbox = directory.outbox
        self._registry = registry

    async def write(
        self, tenant: str, facts: Sequence[AdminFact], carrier: Put | Update, others: Sequence[Write] = ()
    ) -> None:
        """Writes all or nothing. The item of `carrier` holds the events until they are sent.

        Raises TransactionCancelled, whose reasons are that of `carrier`, then those of `others`; StoreError.
        """
        version, at = secrets.token_hex(8), now()
        clusters = [ref for ref in self._registry.clusters if ref.tenant == tenant]
        messages, kept = list[OutboxMessage](), list[Put]()
        if are_told_at_once(len(clusters)):
            # One time: a feed of all clusters has the copies one after the other, and tells one of them.
            messages = [cluster_event(ref, fact, version=version, at=at) for fact in facts for ref in clusters]
        else:
            kept = [kept_fact(tenant, fact, version=version, at=at) for fact in facts]
        await self._outbox.transact(carrier, messages, [*others, *kept], token=f"audited-{secrets.token_hex(16)}")


class KeptEvents:
    """Tells kept facts to the histories of clusters, and then forgets them.

    It looks once at each tenant that has a cluster: at the start, and when a tenant gets its first one. At tenants with
    many clusters it looks again and again. A fact that is told twice, by two replicas or after a failure, has the same
    event id, and the archive keeps it once.
    """

    def __init__(self, store: Store, client: Client, registry: Registry) -> None:
        self._store = store
        self._client = client
        self._registry = registry
        self._done: frozenset[str] = frozenset()

    def sweeper(self) -> Sweeper[str]:
        """Looks for new clusters every few seconds."""
        failures = (StoreError, BusUnavailable, MessageRejected)
        return Sweeper(
            Sweep("kept events", self._tenants, self.tell, Place, failures),
            Pace(INTERVAL_SECONDS, TELL_SECONDS),
            BOUNDS,
        )

    async def _tenants(self) -> frozenset[str]:
        """The new tenants, and those with many clusters."""
        clusters = Counter(ref.tenant for ref in self._registry.clusters)
        self._done = frozenset(each for each in self._done if are_told_at_once(clusters[each]))
        return frozenset(clusters) - self._done

    async def tell(self, tenant: str) -> None:
        """Tell the kept facts of a tenant. Raises StoreError, BusUnavailable, MessageRejected."""
        clusters, partition = [ref for ref in self._registry.clusters if ref.tenant == tenant], tenant_key(tenant).pk
        async for item in all_items(
            lambda after: self._store.query(ACCOUNTS, partition, sort=KEPT_EVENTS, cursor=after, limit=100)
        ):
            await self._tell(item, clusters)
        if are_told_at_once(len(clusters)):
            self._done |= {tenant}

    async def _tell(self, item: Item, clusters: list[ClusterRef]) -> None:
        try:
            fact = AdminFact.model_validate_json(str(item.attributes["fact"]))
            at, version = datetime.fromisoformat(str(item.attributes["at"])), str(item.attributes["fact_version"])
        except (KeyError, ValueError) as error:
            # Of a newer release, which will tell it, or damaged.
            log.warning("kept_event_unreadable", key=item.key.sk, reason=type(error).__name__)
            return
        for ref in clusters:
            event = event_of(SERVICE, ref, fact, version=version, time=at)
            await bus.store(self._client, subjects.event(ref, fact.kind), *encode(event, message_id=event.id))
        await self._store.delete(Delete(ACCOUNTS, item.key))
