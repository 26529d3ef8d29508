"""Follows the heartbeats of all edges. None of them can keep the reader busy.

Heartbeats come from agents in customers' networks: they may be many, large or garbage. The stream HB has one message of
each cluster, so of a flood only the newest is read. What the reading of one cluster's heartbeats costs is bounded, too.
"""

import time
from collections.abc import Callable, Sequence
from datetime import datetime

import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage, decode_foreign
from clusterra_contracts.bus.subjects import Subject, UnknownSubject
from clusterra_contracts.bus.topology import HB
from clusterra_contracts.heartbeat import MAX_DECODED_BYTES, Heartbeat
from clusterra_contracts.identity import ClusterRef

from clusterra_runtime.metrics import HANDLED, family
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import BusUnavailable, MessageRejected
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import Stored, last_stored
from clusterra_runtime.nats.streams.follow import Follower

log = structlog.get_logger(__name__)

SHARE = 0.05
"""The share of the time that the heartbeats of one cluster may take. Beyond it only the newest is read, later."""


async def last_heartbeat(
    client: Client, ref: ClusterRef, max_bytes: int = MAX_DECODED_BYTES
) -> tuple[Heartbeat, datetime] | None:
    """The last heartbeat of a cluster, and when it was heard; None when none is stored. A larger one is not parsed.

    By the server's clock: an agent whose clock is behind is not silent. Raises BusUnavailable, InvalidMessage.
    """
    stored = await last_stored(client, HB.name, subjects.heartbeat(ref))
    if stored is None:
        return None
    heartbeat = decode_foreign(Heartbeat, stored.body, dict(stored.headers), max_bytes=max_bytes)
    return heartbeat, stored.stored_at or heartbeat.sent_at


class HeartbeatReader:
    """Passes each valid heartbeat to `handler`; others become dead letters.

    `max_bytes` says how many bytes a cluster's heartbeat may have: a larger one is not parsed.

    `handler` must not block. An exception of it is logged, and its heartbeat is lost: the next one is complete, too.
    """

    def __init__(
        self, client: Client, handler: Callable[[Subject, Heartbeat], None], max_bytes: Callable[[ClusterRef], int]
    ) -> None:
        self._client = client
        self._max_bytes = max_bytes
        self._handler = handler
        self._follower = Follower(client, HB.name, HB.subjects[0], self._receive)
        self._waiting: dict[str, Stored] = {}
        """The newest heartbeat of each cluster that is still to be read, by subject."""
        self._not_before: dict[str, float] = {}
        """When the next heartbeat of a cluster may be read, by subject."""

    @property
    def working(self) -> bool:
        """Whether the stream could be read last time."""
        return self._follower.working

    async def begin(self) -> None:
        """Start after the heartbeats that are stored now. Raises BusUnavailable."""
        await self._follower.begin()

    async def run(self) -> None:
        """Read until cancelled."""
        await self._follower.run()

    def _receive(self, page: Sequence[Stored]) -> None:
        self._waiting.update((stored.subject, stored) for stored in page)
        now = time.monotonic()
        self._not_before = {subject: at for subject, at in self._not_before.items() if at > now}
        for subject in [each for each in self._waiting if each not in self._not_before]:
            began = time.monotonic()
            self._read(self._waiting.pop(subject))
            ended = time.monotonic()
            self._not_before[subject] = ended + (ended - began) * (1 - SHARE) / SHARE

    def _read(self, stored: Stored) -> None:
        outcome = "done"
        try:
            about = subjects.parse(stored.subject)
            most = self._max_bytes(about.ref)
            heartbeat = decode_foreign(Heartbeat, stored.body, stored.headers, max_bytes=most)
        except (InvalidMessage, UnknownSubject) as error:
            outcome = "garbage"
            self._client.work(self._bury(stored, str(error)))
        else:
            with structlog.contextvars.bound_contextvars(tenant=about.ref.tenant, cluster=about.ref.cluster):
                try:
                    self._handler(about, heartbeat)
                except Exception:
                    outcome = "failed"
                    log.exception("handler_failed", subject=stored.subject)
        HANDLED.labels(family(stored.subject), outcome).inc()

    async def _bury(self, stored: Stored, reason: str) -> None:
        origin = f"{HB.name}-{stored.sequence}"
        try:
            await bus.dead_letter(self._client, stored.subject, stored.body, stored.headers, reason, origin=origin)
        except (BusUnavailable, MessageRejected) as error:
            log.error("dead_letter_lost", subject=stored.subject, reason=str(error))  # noqa: TRY400
