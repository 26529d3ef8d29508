"""Shard leases: which replica works on which shard, in the KV bucket `leases` (NATS ADR-8, ADR-43, ADR-48).

A lease is a key that the server removes unless it is renewed. Leases prevent replicas from doing the same work. Safety
comes from the fencing token: every state that is written under a lease carries its fence, and the write requires that
the stored fence is not higher (`condition.at_most("fence", lease.fence)`). Fences are counted by a `Fences`, outside
NATS: a server that was killed can come back without its last writes, and would hand out lower ones.

A nats-server that was killed (seen with 2.14, more than two minutes after its start) can come back with keys that had
expired, and never removes them. So the age of a key counts, not its presence (`lease_entries`).
"""

import asyncio
import json
import random
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import nats.errors
import structlog
from clusterra_contracts.bus.topology import LEASES
from nats.js.api import Header
from nats.js.errors import APIError, NotFoundError

from clusterra_runtime.metrics import LEASES_HELD
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.direct import replay
from clusterra_runtime.nats.lease_entries import Entries
from clusterra_runtime.nats.lease_terms import PACE, Fences, Lease, Pace, Work

log = structlog.get_logger(__name__)

_STREAM = f"KV_{LEASES.name}"
_WRONG_LAST_SEQUENCE = frozenset({10071, 10164})
_PUBLISH_SECONDS = 2.0
_RETRY_SECONDS = 0.5
_LEAVE_SECONDS = 3.0


@dataclass(slots=True)
class _Holding:
    """A lease that this replica holds, with the revision of its key."""

    shard: int
    fence_floor: int
    """The time when the bucket was created, in microseconds, plus the revision: the fence of earlier releases."""
    revision: int
    deadline: float
    """The time on the monotonic clock from which the lease is no longer held, even if the event loop is blocked."""
    lease: Lease | None = None
    """None until its fence is counted."""


class Leases:
    """Acquires this replica's share of a service's shards, and runs `work` for each of them.

    Guarantees:
    - At most one replica holds a shard (`held`) at a time, as long as the replicas' clocks run at the same rate.
    - The fence of a lease is higher than those of all earlier leases of its shard: with `fences` always, without
      them unless the server forgets writes. Without is enough where nothing is fenced.
    - While a replica is alive, each shard is held again within the times of `Pace` after its holder died, and
      immediately after its holder stopped in order.
    - Replicas hold equal shares: a replica that holds more releases the rest.

    `division` names how a service divides its work into shards. Give a new name when that changes: a release with
    another division, or with none, does the same work under other shards. While a replica of such a release holds a
    lease, this replica holds none, and replicas of such releases count for no share. So old and new replicas work by
    turns during an update, and overlap for at most one poll and the end of the work.
    """

    def __init__(
        self,
        client: Client,
        service: str,
        shards: int,
        work: Work,
        *,
        instance: str = "",
        division: str = "",
        fences: Fences | None = None,
        pace: Pace = PACE,
        alive: Callable[[], bool] = lambda: True,
    ) -> None:
        """`alive` tells whether the work makes progress: without it nothing is acquired and nothing renewed."""
        self._client = client
        self._js = client.jetstream()
        self._service = service
        LEASES_HELD.labels(service).set(0)
        self._shards = shards
        self._work = work
        self._fences = fences
        self._pace = pace
        self._alive = alive
        # A replica that was restarted under its old name counts as another holder.
        holder = f"{re.sub('[^A-Za-z0-9_-]', '-', instance)}-{secrets.token_hex(6)}"
        self._division = division
        self._value = json.dumps({"holder": holder} | ({"division": division} if division else {})).encode()
        self._member = f"{self._prefix}member.{holder}"
        self._held: Mapping[int, _Holding] = {}
        """Replaced at each change and never changed in place, so that every thread may read it."""
        self._tasks: dict[int, asyncio.Task[None]] = {}

    @property
    def held(self) -> Mapping[int, Lease]:
        """The leases that are held at this moment, by shard; for any thread. Read it again after each await."""
        now = time.monotonic()
        held = self._held.items()
        return {number: each.lease for number, each in held if each.lease is not None and each.deadline > now}

    async def run(self) -> None:
        """Compete for shards until cancelled; then end the work and release the shards."""
        try:
            while True:
                try:
                    if self._alive():
                        await self._compete()
                except (nats.errors.Error, BusUnavailable) as error:
                    log.warning("leases_not_polled", reason=str(error))
                await asyncio.sleep(self._pace.poll_seconds * random.uniform(0.8, 1.2))  # noqa: S311
        finally:
            for shard in self._tasks:
                self._release(shard)
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            await self._remove(self._member)

    async def _compete(self) -> None:
        await self._put(self._member)
        stored = [each async for each in replay(self._client, _STREAM, f"{self._prefix}>")]
        entries = Entries.read(stored, self._pace.ttl_seconds)
        ours = {each.subject for each in stored if _division(each.body) == self._division}
        if any(key not in ours and not self._is_member(key) for key in entries.live):
            for shard in tuple(self._tasks):
                self._release(shard)
            return
        members = [key for key in entries.live if self._is_member(key) and key in ours]
        share = -(-self._shards // max(len(members), 1))
        mine = sorted(self._tasks)
        for shard in mine[share:]:
            self._release(shard)
        free = [
            shard for shard in range(self._shards) if shard not in self._tasks and self._key(shard) not in entries.live
        ]
        random.shuffle(free)
        for shard in free[: max(share - len(mine), 0)]:
            await self._acquire(shard, entries.expired.get(self._key(shard), 0))
        for key, revision in entries.expired.items():
            if self._is_member(key):
                await self._remove(key, up_to=revision)

    async def _acquire(self, shard: int, replaces: int) -> None:
        created = (await self._js.stream_info(_STREAM)).created
        if created is None:
            raise nats.errors.Error(f"the server does not report when {_STREAM} was created, so leases have no order")
        sent_at = time.monotonic()
        try:
            revision = await self._put(self._key(shard), replaces=replaces)
        except _Replaced:
            return
        # Revisions start again in a new bucket, but its creation time grows. JSON represents the sum of both exactly.
        floor = int(created.timestamp() * 1_000_000) + revision
        holding = _Holding(shard, floor, revision, self._deadline(sent_at))
        task = asyncio.create_task(self._hold(holding), name=f"lease-{self._service}-{shard}")
        self._tasks[shard] = task
        task.add_done_callback(lambda _: self._tasks.pop(shard))

    def _release(self, shard: int) -> None:
        task = self._tasks[shard]
        # A second cancellation would interrupt the clean-up of the work.
        if not task.cancelling():
            task.cancel()

    async def _hold(self, holding: _Holding) -> None:
        """Run the work while the lease is renewed; when cancelled, renew the lease until the work has ended."""
        shard = holding.shard
        renewing = asyncio.create_task(self._renew_until_lost(holding))
        work = asyncio.create_task(self._work_fenced(holding))
        try:
            await asyncio.wait({renewing, work}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reason = "lost" if renewing.done() else "work ended" if work.done() else "given up"
            work.cancel()
            (failure,) = await asyncio.gather(work, return_exceptions=True)
            renewing.cancel()
            self._held = {number: each for number, each in self._held.items() if number != shard}
            LEASES_HELD.labels(self._service).set(len(self._held))
            await self._remove(self._key(shard), up_to=holding.revision)
            error = None if isinstance(failure, asyncio.CancelledError) else failure
            log.info("lease_ended", service=self._service, shard=shard, reason=reason)
            if isinstance(error, BaseException):
                log.error("lease_work_failed", service=self._service, shard=shard, exc_info=error)

    async def _work_fenced(self, holding: _Holding) -> None:
        """Count the fence of an acquired lease, above its floor so that the release before can follow; then work."""
        shard, fence = holding.shard, holding.fence_floor
        if self._fences is not None:
            fence = await self._fences.next_fence(shard, fence)
        holding.lease = Lease(shard, fence)
        self._held = {**self._held, shard: holding}
        LEASES_HELD.labels(self._service).set(len(self._held))
        log.info("lease_acquired", service=self._service, shard=shard, fence=fence)
        await self._work(holding.lease)

    async def _renew_until_lost(self, holding: _Holding) -> None:
        loop = asyncio.get_running_loop()
        pause = self._pace.renew_seconds
        try:
            async with asyncio.timeout(holding.deadline - time.monotonic()) as limit:
                while True:
                    await asyncio.sleep(pause * random.uniform(0.8, 1.0))  # noqa: S311
                    pause = _RETRY_SECONDS
                    if not self._alive():
                        continue
                    sent_at = time.monotonic()
                    try:
                        if await self._renew(holding):
                            pause = self._pace.renew_seconds
                            holding.deadline = self._deadline(sent_at)
                            limit.reschedule(loop.time() + holding.deadline - time.monotonic())
                        elif not await self._adopt_unacknowledged_renewal(holding):
                            return
                        else:
                            pause = 0
                    except nats.errors.Error as error:
                        log.warning("lease_not_renewed", shard=holding.shard, reason=str(error))
        except TimeoutError:
            log.warning("lease_renewed_too_late", shard=holding.shard)
        finally:
            holding.deadline = 0.0

    async def _renew(self, holding: _Holding) -> bool:
        try:
            holding.revision = await self._put(self._key(holding.shard), replaces=holding.revision)
        except _Replaced:
            return False
        return True

    async def _adopt_unacknowledged_renewal(self, holding: _Holding) -> bool:
        """Take over the revision of our own renewal whose answer was lost; returns whether there was one."""
        try:
            stored = await self._js.get_msg(_STREAM, subject=self._key(holding.shard))
        except NotFoundError:
            return False
        if stored.data != self._value or stored.seq is None:
            return False
        holding.revision = stored.seq
        return True

    async def _put(self, key: str, *, replaces: int | None = None) -> int:
        """Write a key for another TTL, on condition that its revision is `replaces` (0: that it does not exist)."""
        # KeyValue.update would drop the TTL, so the lease would never expire.
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
        """Remove a key unless its revision is above `up_to`. Leaves no delete marker, so the key counts as free."""
        seq = None if up_to is None else up_to + 1
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._js.purge_stream(_STREAM, seq=seq, subject=key)
        except (nats.errors.Error, TimeoutError) as error:
            log.warning("lease_left_to_expire", key=key, reason=str(error))

    def _deadline(self, sent_at: float) -> float:
        """When a lease ends that was written by a request sent at this time; the server counts from its arrival."""
        return sent_at + self._pace.ttl_seconds - self._pace.margin_seconds

    @property
    def _prefix(self) -> str:
        return f"$KV.{LEASES.name}.{self._service}."

    def _key(self, shard: int) -> str:
        return f"{self._prefix}{shard}"

    def _is_member(self, key: str) -> bool:
        return key.startswith(f"{self._prefix}member.")


def _division(value: bytes) -> str:
    try:
        return str(json.loads(value).get("division", ""))
    except (ValueError, AttributeError):
        return ""


class _Replaced(Exception):
    """The key does not have the expected revision."""
