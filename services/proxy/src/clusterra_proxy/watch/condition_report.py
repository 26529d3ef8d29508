"""Tells a cluster's condition: as a full state in the bucket `conditions`, and each change of it as an event.

The state is stored before its events, so that it stays true while the stream of events takes none. The next replica
repeats the event of a degradation that its predecessor may not have published. The repetition has the same id, because
the id holds the beginning of the degradation. A replica that ends between the state and the event of a recovery loses
that event.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable

import structlog
from clusterra_contracts.bus.envelope import InvalidMessage, encode
from clusterra_contracts.bus.topology import CONDITIONS
from clusterra_contracts.condition import ClusterCondition, Degradation
from clusterra_contracts.events import ConditionFact, ConditionKind
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import BusUnavailable, Client, MessageRejected
from clusterra_runtime.nats.events import EventPublisher

from clusterra_proxy.cluster.condition import Condition

log = structlog.get_logger(__name__)

PAUSE_SECONDS = 2.0
"""Shortest time between two reports, so that a condition that changes all the time fills no stream."""
RETRY_SECONDS = 2.0
MAX_RETRY_SECONDS = 60.0

_STREAM = f"KV_{CONDITIONS.name}"


class ConditionReport:
    """Reports the condition of one cluster. Only the replica that watches the cluster runs it."""

    def __init__(self, ref: ClusterRef, condition: Condition, client: Client) -> None:
        self._ref = ref
        self._condition = condition
        self._client = client
        self._events = EventPublisher(client, "proxy")
        self._subject = f"$KV.{CONDITIONS.name}.{ref.key}"
        self._stored: dict[str, Degradation] | None = None
        """The stored condition; None before it was read."""
        self._published: set[str] = set()
        """The reasons whose degradation is known to be published."""
        self._ended: dict[str, Degradation] = {}
        """The degradations that ended, and whose end is not yet published: the last one of each reason."""
        self._untold = asyncio.Event()
        """Set when there may be something to publish."""

    async def run(self) -> None:
        """Report every change, forever. A report that fails is repeated. At its end another replica reports."""
        try:
            async with asyncio.TaskGroup() as tasks:
                # Events that nobody takes must not hold up the state.
                tasks.create_task(self._repeat(self._condition.changed, self._keep_state))
                tasks.create_task(self._repeat(self._untold, self._tell))
        finally:
            self._condition.forget()

    async def _repeat(self, changed: asyncio.Event, report: Callable[[], Awaitable[None]]) -> None:
        retry_seconds = RETRY_SECONDS
        while True:
            changed.clear()
            try:
                await report()
            except (BusUnavailable, MessageRejected) as error:
                log.warning("condition_not_reported", reason=str(error))
                await asyncio.sleep(retry_seconds * random.uniform(0.5, 1.0))  # noqa: S311
                retry_seconds = min(2 * retry_seconds, MAX_RETRY_SECONDS)
                continue
            retry_seconds = RETRY_SECONDS
            await asyncio.sleep(PAUSE_SECONDS)
            await changed.wait()

    async def _keep_state(self) -> None:
        if self._stored is None:
            self._stored = await self._read()
            for told in self._stored.values():
                self._condition.continue_from(told)
        degraded = dict(self._condition.degraded)
        if degraded != self._stored:
            await self._store(degraded)
            for reason, told in self._stored.items():
                if reason not in degraded or degraded[reason].since != told.since:
                    self._ended[reason] = told
                    self._published.discard(reason)
            self._stored = degraded
        self._untold.set()

    async def _tell(self) -> None:
        while self._ended:
            reason, ended = next(iter(self._ended.items()))
            await self._publish("cluster.recovered", ended)
            if self._ended.get(reason) is ended:
                del self._ended[reason]
        for reason, begun in (self._stored or {}).items():
            if reason not in self._published:
                await self._publish("cluster.degraded", begun)
                if (self._stored or {}).get(reason) == begun:  # it may have ended meanwhile
                    self._published.add(reason)

    async def _read(self) -> dict[str, Degradation]:
        try:
            found = await bus.last(self._client, _STREAM, self._subject, ClusterCondition)
        except InvalidMessage as error:
            log.warning("condition_unreadable", reason=str(error))
            return {}
        return {each.reason: each for each in found[0].degraded} if found else {}

    async def _store(self, degraded: dict[str, Degradation]) -> None:
        condition = ClusterCondition(degraded=tuple(degraded[reason] for reason in sorted(degraded)))
        body, headers = encode(condition)
        await bus.store(self._client, self._subject, body, headers)

    async def _publish(self, kind: ConditionKind, about: Degradation) -> None:
        over = kind == "cluster.recovered"
        fact = ConditionFact(kind=kind, reason=about.reason, message="" if over else about.message, since=about.since)
        version = f"{about.reason}.{int(about.since.timestamp() * 1000)}"
        await self._events.publish(self._ref, fact, version=version, time=now() if over else about.since)
