"""A visit to a webhook: sends the events that it has not got yet, in order, and keeps its progress.

After each event that was sent, the entry of the delivery log is written and then the progress, on the condition that
nobody else has moved it. So an event may be sent twice, after a crash or where two replicas visit a webhook at once;
receivers know it by its id. None is left out, because the progress passes an event only after its outcome is known. An
event that a digest counts is passed and counted in one write.
"""

import hashlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import structlog
from clusterra_contracts.bus.topology import EVENT
from clusterra_contracts.events import Event, JobFact
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.webhooks import Attempt, Delivery
from clusterra_contracts.webhooks import Webhook
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import StreamEnd, stream_end
from clusterra_runtime.store.store import ConditionFailed

from clusterra_events.webhooks.digests import task_fact
from clusterra_events.webhooks.matching import concerns, may_concern
from clusterra_events.webhooks.progress import (
    DIGEST,
    Outcome,
    Progress,
    after_failure,
    attempts_of,
    pause_seconds,
    progress_of,
)
from clusterra_events.webhooks.reading import Found, Pages
from clusterra_events.webhooks.sender import SelectiveSender
from clusterra_events.webhooks.signature import message_id
from clusterra_events.webhooks.state_table import DeliveryRecords, Kept

MOST_EVENTS = 256
"""How many events one visit sends."""
SLOW_SECONDS = 2.0
"""A receiver that takes longer for an event is slow: its visits leave room for those of others."""
VISIT_SECONDS = 20.0
"""After this time a visit ends with its present event."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """A webhook of a tenant."""

    tenant: str
    webhook: Webhook


@dataclass(frozen=True, slots=True)
class Visited:
    """How a visit ended."""

    more: bool = False
    """Whether there is more to send at once."""
    due_at: datetime | None = None
    """When the failing event is tried again."""
    failed: bool = False
    """Whether an attempt failed."""
    slow: bool = False
    """Whether it took long to take one."""
    digest_at: datetime | None = None
    """When a digest is due, if no event comes before."""


def digest_of_url(webhook: Webhook) -> str:
    """A digest of a webhook's URL, which itself is kept nowhere else."""
    return hashlib.sha256(webhook.url.encode()).hexdigest()[:16]


class Overtaken(Exception):
    """Another replica has moved the progress, or an admin has changed the webhook."""


type IsCurrent = Callable[[str, Webhook], Awaitable[bool]]
"""Whether a tenant's webhook is still stored as given. Raises StoreError."""
type TellDisabled = Callable[[Target, str], Awaitable[None]]
"""Publishes that a webhook was disabled, and why. Raises BusUnavailable, MessageRejected."""


@dataclass(frozen=True, slots=True)
class Deliverer:
    """Visits webhooks."""

    client: Client
    records: DeliveryRecords
    sender: SelectiveSender
    is_current: IsCurrent
    tell_disabled: TellDisabled
    may_disable: bool = True
    """Whether failures disable what is visited."""

    async def visit(self, target: Target, may_go_on: Callable[[], bool] = lambda: True) -> Visited:
        """Send what has not been sent. `may_go_on` is asked before each event.

        Raises StoreError, BusUnavailable, MessageRejected, and ValidationError for a progress of a newer release.
        """
        kept = await self.records.progress(target.tenant, target.webhook.id)
        webhook = target.webhook
        known = kept.progress is not None and kept.progress.deliver_from_id == webhook.deliver_from.id
        # Delivery begins anew at this `deliver_from`, which must be the newest: the copy of the webhook may be old.
        if not known and not await self.is_current(target.tenant, webhook):
            return Visited()
        # It was set aside when the tenant had no cluster any more. Written anew, it expires no longer.
        if kept.progress is not None and kept.expires:
            try:
                kept = await self.records.keep(target.tenant, webhook.id, kept.progress, kept)
            except ConditionFailed:
                return Visited()
        progress = progress_of(kept.progress, webhook.deliver_from)
        if not progress.is_due(now(), digest_of_url(webhook)):
            return Visited(due_at=progress.next_attempt_at)
        stream = await stream_end(self.client, EVENT.name)
        if not progress.fits(stream):
            log.warning("webhook_stream_anew", tenant=target.tenant, webhook=target.webhook.id)
            progress = progress.anew()
        visit = _Visit(self, target, stream, kept, progress)
        try:
            return await visit.run(may_go_on)
        except Overtaken:
            log.info("webhook_overtaken", tenant=target.tenant, webhook=target.webhook.id)
            return Visited()


class _Visit:
    """One visit, and the progress so far."""

    def __init__(self, deliverer: Deliverer, target: Target, stream: StreamEnd, kept: Kept, progress: Progress) -> None:
        self._by = deliverer
        self._target = target
        self._stream = stream
        self._kept = kept
        self._progress = progress
        self._sent = 0
        self._slow = False
        self._ends_at = time.monotonic() + VISIT_SECONDS

    async def run(self, may_go_on: Callable[[], bool]) -> Visited:
        webhook = self._target.webhook
        pages = Pages(self._by.client, self._target.tenant, self._stream, partial(may_concern, webhook))
        async with aclosing(pages.after(self._progress)) as following, aclosing(self._next(following)) as coming:
            async for found in coming:
                if not may_go_on():
                    return Visited()
                if self._sent >= MOST_EVENTS or time.monotonic() >= self._ends_at:
                    await self._keep()
                    return Visited(more=True, slow=self._slow)
                outcome = await self._deal_with(found)
                if outcome in ("retry", "disabled"):
                    return Visited(due_at=self._progress.next_attempt_at, failed=True)
        return Visited(slow=self._slow, digest_at=self._progress.digests.due_at(now()))

    async def _next(self, pages: AsyncGenerator[list[Found]]) -> AsyncGenerator[Found]:
        """What comes next, until the end of the stream: its events, and before them the digests that are due."""
        while (digest := await self._due_digest()) is not None:
            yield digest
        async for page in pages:
            for found in page:
                yield found
                if self._progress.digests.is_full and (digest := await self._due_digest()) is not None:
                    yield digest
            await self._keep()
            while (digest := await self._due_digest()) is not None:
                yield digest
        self._progress = self._progress.at_end()
        while (digest := await self._due_digest()) is not None:
            yield digest
        await self._keep()

    async def _due_digest(self) -> Found | None:
        """A digest that is due. It is stored first, with all that it counts, and so is the same in every attempt."""
        if self._progress.digests.sealed is None:
            all_at_once = self._target.webhook.arrays == "tasks"
            self._progress = self._progress.sealing(now(), all_at_once=all_at_once)
        if (sealed := self._progress.digests.sealed) is None:
            return None
        await self._keep()
        return Found(*sealed.event(self._target.tenant, self._progress.deliver_from_id), DIGEST, None)

    async def _deal_with(self, found: Found) -> Outcome | None:
        """Send an event, or count it for a digest. Returns the outcome; None for one that is not sent."""
        is_digest, ref, event = found.sequence == DIGEST, found.ref, found.event
        if not is_digest:
            self._progress = self._progress.at(found.sequence)
        if ref is None or event is None or not (is_digest or concerns(self._target.webhook, ref.cluster, event)):
            self._progress = self._progress.skipped(found.sequence, found.stored_at, self._stream)
            return None
        fact = self._counted(event)
        if fact is None or self._progress.digests.tells_at_once(ref.cluster, fact):
            return await self._send(found, ref, event)
        self._progress = self._passed(self._progress, found, delivered=False)
        return None

    def _counted(self, event: Event) -> JobFact | None:
        """The fact of an event that digests count; None for one that is sent as it is."""
        return task_fact(event.data) if self._target.webhook.arrays == "digest" else None

    def _passed(self, progress: Progress, found: Found, *, delivered: bool) -> Progress:
        """The progress after an event, whose outcome is known or which a digest will tell."""
        if found.sequence == DIGEST:
            return progress.digest_delivered() if delivered else progress.digest_given_up()
        passed = progress.succeeded if delivered else progress.skipped
        after, event = passed(found.sequence, found.stored_at, self._stream), found.event
        if found.ref is None or event is None or (fact := self._counted(event)) is None:
            return after
        if delivered:
            return after.with_digests(after.digests.failure_told(found.ref.cluster, fact, now()))
        return after.with_digests(after.digests.counted(found.ref.cluster, event, fact, now()))

    async def _send(self, found: Found, ref: ClusterRef, event: Event) -> Outcome | None:
        """Send an event. Returns the outcome; None for one that nobody gets."""
        failing = attempts_of(self._progress, found.sequence, now(), digest_of_url(self._target.webhook))
        attempt = await self._by.sender.send(self._target.webhook, ref, event)
        if attempt is None:
            self._progress = self._passed(self._progress, found, delivered=found.sequence == DIGEST)
            return None
        self._sent += 1
        self._slow = self._slow or attempt.seconds > SLOW_SECONDS
        at, number = now(), self._progress.logged
        outcome: Outcome = "delivered"
        if attempt.delivered:
            progress = self._passed(self._progress, found, delivered=True)
        else:
            pause = pause_seconds(failing.attempts)
            progress, outcome = after_failure(
                self._progress, failing, attempt, at, pause, may_disable=self._by.may_disable
            )
            if outcome == "given up":
                progress = self._passed(progress, found, delivered=False)
        if outcome == "disabled" and not await self._by.is_current(self._target.tenant, self._target.webhook):
            # Its admin has changed it meanwhile, such as to an address in place of the one that is gone.
            raise Overtaken
        entry = Delivery(
            message_id=message_id(ref, event.id),
            event_id=event.id,
            kind=event.kind,
            cluster=ref.cluster,
            subject=event.subject,
            time=at,
            attempts=failing.attempts,
            given_up=outcome == "given up",
            last=attempt,
        )
        await self._by.records.log(self._target.tenant, self._target.webhook.id, number, entry)
        if outcome == "disabled":
            # Before the progress is kept: after a crash in between, the event is published again with the same id.
            await self._by.tell_disabled(self._target, progress.disabled_reason)
        self._tell(outcome, ref, event, attempt, failing.attempts)
        self._progress = progress
        await self._keep()
        return outcome

    async def _keep(self) -> None:
        """Keep the progress, where it has changed. Raises Overtaken, StoreUnavailable."""
        if self._progress == self._kept.progress:
            return
        tenant, webhook_id = self._target.tenant, self._target.webhook.id
        try:
            self._kept = await self._by.records.keep(tenant, webhook_id, self._progress, self._kept)
        except ConditionFailed:
            raise Overtaken from None

    def _tell(self, outcome: Outcome, ref: ClusterRef, event: Event, attempt: Attempt, attempts: int) -> None:
        """Log a failed attempt. The log has neither the URL nor, of the answer, more than its status."""
        if outcome == "delivered":
            return
        log.warning(
            "webhook_not_delivered",
            tenant=ref.tenant,
            cluster=ref.cluster,
            webhook=self._target.webhook.id,
            event_id=event.id,
            outcome=outcome,
            status=attempt.status,
            problem=attempt.problem,
            attempts=attempts,
        )
