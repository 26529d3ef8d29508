"""Which webhooks are visited: those that an event may concern, those of which a digest or an event that failed is due,
and at times all.

Replicas share the webhooks by leases of shards. A lease only saves work. The guarantee is the condition under which the
progress of a webhook is written.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Protocol
from zlib import crc32

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.subjects import UnknownSubject
from clusterra_contracts.identity import now
from clusterra_contracts.webhooks import Webhook
from clusterra_runtime.nats.bus import MessageRejected
from clusterra_runtime.nats.client import BusUnavailable
from clusterra_runtime.nats.lease_terms import Lease
from clusterra_runtime.store.store import StoreError
from clusterra_runtime.sweeps.agenda import Bounds, Place
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper, Unfinished
from nats.aio.msg import Msg

from clusterra_events.webhooks.definitions import OnChange
from clusterra_events.webhooks.delivery import Deliverer, Target
from clusterra_events.webhooks.matching import may_concern
from clusterra_events.webhooks.progress import is_over

SHARDS = 16
DIVISION = f"webhooks/{SHARDS}"
ALL_SECONDS = 30.0
"""How often all webhooks are visited, for the case that a message about an event was missed."""
BOUNDS = Bounds(at_once=64, most_silent=16, most_of_tenant=24, remembers_silent=True)
"""A webhook that failed is in no round until it is due. So it is remembered: many that are silent delay no others."""
PACE = Pace(ALL_SECONDS / 2, 60.0, at_start=True)
FAMILY = "webhook"
"""The family of kinds that tell of webhooks themselves."""

RETRY_SECONDS = 5.0
"""When a webhook is visited again after the store or the bus has failed."""
FAILURES = (StoreError, BusUnavailable, MessageRejected)

type Key = tuple[str, str]
"""A tenant and the id of one of its webhooks."""


def shard_of(webhook_id: str) -> int:
    """The shard of a webhook."""
    return crc32(webhook_id.encode()) % SHARDS


class Known(Protocol):
    """The webhooks that are visited."""

    on_change: OnChange

    @property
    def webhooks(self) -> Mapping[str, Mapping[str, Webhook]]:
        """Tenant -> id -> webhook."""

    def changed(self, tenant: str) -> None:
        """Those of a tenant may have changed."""


class WebhookSweep:
    """Visits the webhooks of the shards that this replica holds."""

    def __init__(self, deliverer: Deliverer, definitions: Known, name: str = "webhooks") -> None:
        """`name`: what is visited."""
        self._deliverer = deliverer
        self._definitions = definitions
        definitions.on_change = self._on_change
        self._held: Callable[[], Collection[int]] = lambda: range(SHARDS)
        self._wanted = set[Key]()
        self._due = dict[Key, tuple[Webhook, datetime]]()
        """Webhooks whose last visit failed, as they were then, and when they are visited again unless they change."""
        self._digests = dict[Key, datetime]()
        """When a digest of a webhook is due. Events that come before are dealt with all the same."""
        self._timer: asyncio.TimerHandle | None = None
        self._all_at = -ALL_SECONDS
        self._sweep = Sweep[Target](name, self._listed, self._visit, _place, FAILURES)

    def sweeper(self) -> Sweeper[Target]:
        """Makes the visits. One that fails delays no other webhook."""
        return Sweeper(self._sweep, PACE, BOUNDS)

    async def lead(self, lease: Lease) -> None:
        """Visit the webhooks of a shard while its lease is held."""
        self.visit_all()
        await asyncio.Event().wait()

    def visit_all(self) -> None:
        """Visit all webhooks soon: other shards may be held."""
        self._all_at = -ALL_SECONDS
        self._sweep.woken.set()

    def only(self, held: Callable[[], Collection[int]]) -> None:
        """Visit only the webhooks of the shards that are held."""
        self._held = held

    def _on_change(self, tenant: str, webhook_ids: Iterable[str]) -> None:
        self._want((tenant, each) for each in webhook_ids)

    async def on_event(self, message: Msg) -> None:
        """Note an event. Only its subject counts: the event is read from the stream."""
        try:
            about = subjects.parse(message.subject)
        except UnknownSubject:
            return
        tenant, kind = about.ref.tenant, about.rest
        if kind.partition(".")[0] == FAMILY:
            self._definitions.changed(tenant)
        webhooks = self._webhooks_of(tenant)
        self._want((tenant, each.id) for each in webhooks.values() if may_concern(each, about.ref.cluster, kind))

    def _want(self, keys: Iterable[Key]) -> None:
        held = self._held()
        if wanted := {key for key in keys if shard_of(key[1]) in held}:
            self._wanted |= wanted
            self._sweep.woken.set()

    def _webhooks_of(self, tenant: str) -> Mapping[str, Webhook]:
        return self._definitions.webhooks.get(tenant, {})

    async def _listed(self) -> list[Target]:
        """The webhooks to visit now. A round replaces the list of the one before, so what waits is listed again."""
        at = time.monotonic()
        if at - self._all_at >= ALL_SECONDS:
            self._all_at = at
            self._wanted |= {(tenant, each) for tenant, known in self._definitions.webhooks.items() for each in known}
        found, held = dict[Key, Target](), self._held()
        for key in self._wanted:
            tenant, webhook_id = key
            webhook = self._webhooks_of(tenant).get(webhook_id)
            ours = shard_of(webhook_id) in held
            if ours and webhook is not None and webhook.enabled and self._is_due(key, webhook):
                found[key] = Target(tenant, webhook)
        self._wanted = set(found)
        self._due = {key: due for key, due in self._due.items() if key[1] in self._webhooks_of(key[0])}
        self._digests = {key: at for key, at in self._digests.items() if key[1] in self._webhooks_of(key[0])}
        return list(found.values())

    def _is_due(self, key: Key, webhook: Webhook) -> bool:
        if key not in self._due:
            return True
        known, due_at = self._due[key]
        return known != webhook or is_over(due_at, now())

    async def _visit(self, target: Target) -> None:
        key = (target.tenant, target.webhook.id)
        self._wanted.discard(key)
        self._due.pop(key, None)
        self._digests.pop(key, None)
        try:
            visited = await self._deliverer.visit(target, lambda: self._may_go_on(target))
        except FAILURES:
            self._visit_at(target, now() + timedelta(seconds=RETRY_SECONDS))
            raise
        if visited.due_at is not None:
            self._visit_at(target, visited.due_at)
        if visited.digest_at is not None:
            self._digests[key] = visited.digest_at
            self._set_timer()
        if visited.more:
            self._want([key])
        if visited.failed or visited.slow:
            raise Unfinished

    def _may_go_on(self, target: Target) -> bool:
        """Whether this replica still holds the webhook's shard, and the webhook is unchanged."""
        known = self._webhooks_of(target.tenant).get(target.webhook.id)
        return known == target.webhook and shard_of(target.webhook.id) in self._held()

    def _visit_at(self, target: Target, due_at: datetime) -> None:
        self._due[target.tenant, target.webhook.id] = target.webhook, due_at
        self._set_timer()

    def _set_timer(self) -> None:
        """Wake the sweep when the next webhook is due. One timer for all of them."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        at = now()
        seconds = [0.0 if is_over(due_at, at) else (due_at - at).total_seconds() for _, due_at in self._due.values()]
        seconds.extend((due_at - at).total_seconds() for due_at in self._digests.values())
        if seconds:
            self._timer = asyncio.get_running_loop().call_later(max(min(seconds), 0.0), self._on_timer)

    def _on_timer(self) -> None:
        self._timer, at = None, now()
        due = [key for key, (_, due_at) in self._due.items() if is_over(due_at, at)]
        digests = [key for key, due_at in self._digests.items() if due_at <= at]
        for key in due:
            del self._due[key]
        for key in digests:
            del self._digests[key]
        self._want({*due, *digests})
        self._set_timer()


def _place(target: Target) -> Place:
    # Each webhook is a group of its own, as a cluster is elsewhere: one that is silent delays no other.
    return Place(target.tenant, target.webhook.id)
