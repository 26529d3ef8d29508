"""Tells a cluster's condition: as a full state in the bucket `conditions`, and each change of it as an event.

A degradation is stored before its event, and removed after the event of its end. So the next replica repeats an event
that its predecessor may not have published. The repetition has the same id, because the id holds the beginning of the
degradation.
"""

import asyncio
import random

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

    async def run(self) -> None:
        """Report every change, forever. A report that fails is repeated. At its end another replica reports."""
        try:
            await self._report_changes()
        finally:
            self._condition.forget()

    async def _report_changes(self) -> None:
        retry_seconds = RETRY_SECONDS
        while True:
            self._condition.changed.clear()
            try:
                await self._report()
            except (BusUnavailable, MessageRejected) as error:
                log.warning("condition_not_reported", reason=str(error))
                await asyncio.sleep(retry_seconds * random.uniform(0.5, 1.0))  # noqa: S311
                retry_seconds = min(2 * retry_seconds, MAX_RETRY_SECONDS)
                continue
            retry_seconds = RETRY_SECONDS
            await asyncio.sleep(PAUSE_SECONDS)
            await self._condition.changed.wait()

    async def _report(self) -> None:
        if self._stored is None:
            self._stored = await self._read()
            for told in self._stored.values():
                self._condition.continue_from(told)
        degraded = dict(self._condition.degraded)
        for reason, ended in self._stored.items():
            if reason not in degraded or degraded[reason].since != ended.since:
                await self._publish("cluster.recovered", ended)
                self._published.discard(reason)
        if degraded != self._stored:
            await self._store(degraded)
            self._stored = degraded
        for reason, begun in degraded.items():
            if reason not in self._published:
                await self._publish("cluster.degraded", begun)
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
