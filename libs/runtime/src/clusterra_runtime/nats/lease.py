"""Partition leases: which replica works on what, kept in the KV bucket `leases` (NATS' ADR-8, ADR-43 and ADR-48).

A lease is a key that the server removes when nobody renews it. It spares replicas from doing the same work; what makes
a mistake harmless is its fence: every state written under a lease carries the fence, on condition that the stored one
is not higher (`condition.at_most("fence", lease.fence)`).
"""

import asyncio
import json
import random
import re
import secrets
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import nats.errors
import structlog
from clusterra_contracts.bus.topology import LEASES
from nats.js import JetStreamContext
from nats.js.api import Header
from nats.js.errors import APIError, NotFoundError

log = structlog.get_logger(__name__)

_STREAM = f"KV_{LEASES.name}"
_WRONG_LAST_SEQUENCE = frozenset({10071, 10164})
_PUBLISH_SECONDS = 2.0
_RETRY_SECONDS = 0.5
_LEAVE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on a partition. A later lease on it has a higher fence, whoever holds it."""

    partition: int
    fence: int


type Work = Callable[[Lease], Coroutine[Any, Any, None]]
"""Runs while the lease is held. It is cancelled when the lease is lost or wanted elsewhere, and should end quickly."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast leases change hands: a dead holder's partitions within `ttl + poll` and about a second."""

    ttl_seconds: int = 7
    """The server counts whole seconds."""
    renew_seconds: float = 2.0
    poll_seconds: float = 1.0
    margin_seconds: float = 1.5
    """A holder gives up this long before the server does: in this time its work must end."""


@dataclass(slots=True)
class _Tenure:
    lease: Lease
    revision: int
    deadline: float
    """On the event loop's clock; not held from then on, whatever else the loop is doing."""


class Leases:
    """Holds this replica's share of a service's partitions, and runs `work` for each of them.

    Guarantees: of any number of replicas at most one holds a partition (`held`) at a time, as long as clocks run at
    the same rate; each lease's fence is higher than that of all earlier ones of its partition, also over a restart or
    a loss of the bucket; with some replica alive each partition is held again `Pace` after its holder died, at once
    after it stopped in order. Replicas take equal shares: one that holds more gives the rest back.
    """

    def __init__(
        self,
        js: JetStreamContext,
        service: str,
        partitions: int,
        work: Work,
        *,
        instance: str = "",
        pace: Pace = Pace(),
    ) -> None:
        self._js = js
        self._service = service
        self._partitions = partitions
        self._work = work
        self._pace = pace
        # A replica that was restarted under its old name is another holder.
        holder = f"{re.sub('[^A-Za-z0-9_-]', '-', instance)}-{secrets.token_hex(6)}"
        self._value = json.dumps({"holder": holder}).encode()
        self._member = f"{self._prefix}member.{holder}"
        self._held: dict[int, _Tenure] = {}
        self._tenures: dict[int, asyncio.Task[None]] = {}

    @property
    def held(self) -> Mapping[int, Lease]:
        """The leases that are held at this very moment, by partition. Look again after each await."""
        now = asyncio.get_running_loop().time()
        return {partition: tenure.lease for partition, tenure in self._held.items() if tenure.deadline > now}

    async def run(self) -> None:
        """Compete for partitions until cancelled; then end the work and release them."""
        try:
            while True:
                try:
                    await self._compete()
                except nats.errors.Error as error:
                    log.warning("leases_not_polled", reason=str(error))
                await asyncio.sleep(self._pace.poll_seconds * random.uniform(0.8, 1.2))  # noqa: S311
        finally:
            for partition in self._tenures:
                self._give_up(partition)
            await asyncio.gather(*self._tenures.values(), return_exceptions=True)
            await self._remove(self._member)

    async def _compete(self) -> None:
        await self._put(self._member)
        members, taken, created = await self._competitors()
        share = -(-self._partitions // max(members, 1))
        mine = sorted(self._tenures)
        for partition in mine[share:]:
            self._give_up(partition)
        free = [key for key in range(self._partitions) if key not in self._tenures and self._key(key) not in taken]
        random.shuffle(free)
        for partition in free[: max(share - len(mine), 0)]:
            await self._take(partition, created)

    async def _competitors(self) -> tuple[int, Collection[str], datetime]:
        """How many replicas there are, the keys that are taken, and when the bucket was made."""
        info = await self._js.stream_info(_STREAM, subjects_filter=f"{self._prefix}>")
        if info.created is None:
            raise nats.errors.Error(f"the server does not tell when {_STREAM} was made, so no lease can be ordered")
        taken = info.state.subjects or {}
        return sum(key.startswith(f"{self._prefix}member.") for key in taken), taken, info.created

    async def _take(self, partition: int, created: datetime) -> None:
        sent_at = asyncio.get_running_loop().time()
        try:
            revision = await self._put(self._key(partition), replaces=0)
        except _Replaced:
            return
        # Revisions begin again when the bucket is lost and made anew; the time at which it was made grows. Their sum
        # fits into JSON's exact integers.
        fence = int(created.timestamp() * 1_000_000) + revision
        tenure = _Tenure(Lease(partition, fence), revision, self._deadline(sent_at))
        task = asyncio.create_task(self._hold(tenure), name=f"lease-{self._service}-{partition}")
        self._tenures[partition] = task
        task.add_done_callback(lambda _: self._tenures.pop(partition))

    def _give_up(self, partition: int) -> None:
        tenure = self._tenures[partition]
        # A second cancellation would cut the end of the work short.
        if not tenure.cancelling():
            tenure.cancel()

    async def _hold(self, tenure: _Tenure) -> None:
        """Run the work for as long as the lease is renewed; when cancelled, renew it until the work has ended."""
        partition, fence = tenure.lease.partition, tenure.lease.fence
        self._held[partition] = tenure
        log.info("lease_acquired", service=self._service, partition=partition, fence=fence)
        keeping = asyncio.create_task(self._keep(tenure))
        work = asyncio.create_task(self._work(tenure.lease))
        try:
            await asyncio.wait({keeping, work}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reason = "lost" if keeping.done() else "work ended" if work.done() else "given up"
            work.cancel()
            (failure,) = await asyncio.gather(work, return_exceptions=True)
            keeping.cancel()
            del self._held[partition]
            await self._remove(self._key(partition), up_to=tenure.revision)
            error = None if isinstance(failure, asyncio.CancelledError) else failure
            log.info("lease_ended", service=self._service, partition=partition, fence=fence, reason=reason)
            if isinstance(error, BaseException):
                log.error("lease_work_failed", service=self._service, partition=partition, exc_info=error)

    async def _keep(self, tenure: _Tenure) -> None:
        """Renew a lease; return when it is lost."""
        loop = asyncio.get_running_loop()
        pause = self._pace.renew_seconds
        try:
            async with asyncio.timeout_at(tenure.deadline) as limit:
                while True:
                    await asyncio.sleep(pause)
                    pause = _RETRY_SECONDS
                    sent_at = loop.time()
                    try:
                        if await self._renewed(tenure):
                            pause = self._pace.renew_seconds
                            tenure.deadline = self._deadline(sent_at)
                            limit.reschedule(tenure.deadline)
                        elif not await self._renewed_unheard(tenure):
                            return
                        else:
                            pause = 0
                    except nats.errors.Error as error:
                        log.warning("lease_not_renewed", partition=tenure.lease.partition, reason=str(error))
        except TimeoutError:
            log.warning("lease_renewed_too_late", partition=tenure.lease.partition)
        finally:
            tenure.deadline = 0.0

    async def _renewed(self, tenure: _Tenure) -> bool:
        try:
            tenure.revision = await self._put(self._key(tenure.lease.partition), replaces=tenure.revision)
        except _Replaced:
            return False
        return True

    async def _renewed_unheard(self, tenure: _Tenure) -> bool:
        """Whether it was replaced by a renewal of ours whose answer did not come; then that is the one to renew."""
        try:
            stored = await self._js.get_msg(_STREAM, subject=self._key(tenure.lease.partition))
        except NotFoundError:
            return False
        if stored.data != self._value or stored.seq is None:
            return False
        tenure.revision = stored.seq
        return True

    async def _put(self, key: str, *, replaces: int | None = None) -> int:
        """Write a key for another TTL, if its revision is still the one it replaces (0: if there is none)."""
        # KeyValue.update would drop the TTL and so make the lease permanent.
        headers = {} if replaces is None else {Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: str(replaces)}
        try:
            answer = await self._js.publish(
                key, self._value, timeout=_PUBLISH_SECONDS, headers=headers, msg_ttl=self._pace.ttl_seconds
            )
        except APIError as error:
            if error.err_code in _WRONG_LAST_SEQUENCE:
                raise _Replaced from error
            raise
        return answer.seq

    async def _remove(self, key: str, *, up_to: int | None = None) -> None:
        """Remove a key, if its revision is not above `up_to`; leaves no marker, so that others see it is free."""
        seq = None if up_to is None else up_to + 1
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._js.purge_stream(_STREAM, seq=seq, subject=key)
        except (nats.errors.Error, TimeoutError) as error:
            log.warning("lease_left_to_expire", key=key, reason=str(error))

    def _deadline(self, sent_at: float) -> float:
        """When a lease written by a request sent at this time is no more held; the server counts from its arrival."""
        return sent_at + self._pace.ttl_seconds - self._pace.margin_seconds

    @property
    def _prefix(self) -> str:
        return f"$KV.{LEASES.name}.{self._service}."

    def _key(self, partition: int) -> str:
        return f"{self._prefix}{partition}"


class _Replaced(Exception):
    """The key has another revision than the expected one."""
