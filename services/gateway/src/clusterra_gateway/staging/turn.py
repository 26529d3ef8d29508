"""One gateway's turn at a staging: it holds a lease on the staging, writes the progress, and asks the edge.

Each write is conditional on the version of the item, so a gateway that has lost the lease writes nothing.
"""

import asyncio
import hashlib
import time
from datetime import timedelta

from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.edge_folders import LocalUser
from clusterra_contracts.rpc.edge_staging import Stage, Staged, StagingWork
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.requests import EdgeRequests
from clusterra_gateway.staging.staging import Staging
from clusterra_gateway.staging.staging_records import StagingRecords, Stored

CLAIM = timedelta(seconds=60)
"""The length of the lease. It is longer than the bucket takes to complete a multipart upload."""
RENEWED = timedelta(seconds=15)
"""The age at which the lease is renewed while the edge works."""
TURN_SECONDS = 30.0
"""A turn that lasts longer ends after the next step, so that other jobs get their turn."""
WAIT_SECONDS = 10.0
"""How long the edge waits for the end of the work before it answers that the work goes on."""
ASKED_SECONDS = 0.5
"""How soon the edge is asked again at the earliest, should it not wait."""
UNREACHABLE_ATTEMPTS = 3
"""How many times an edge that does not answer is asked within a turn: its agent may be starting."""
UNREACHABLE_SECONDS = 2.0


class Lost(Exception):
    """The lease is lost: another gateway continues the staging."""


class TurnOver(Exception):
    """The staging continues in a later turn, after those of other jobs."""


class Paused(Exception):
    """The staging cannot go on now. The text says why, for the job's owner to read."""

    by_file = False


class FilePaused(Paused):
    """The staging cannot go on now because of one file, which is tried `FILE_ATTEMPTS` times."""

    by_file = True


class Turn:
    """A turn. Every method may raise StoreError."""

    def __init__(
        self, records: StagingRecords, edge: EdgeRequests, ref: ClusterRef, stored: Stored, instance: str
    ) -> None:
        self._records = records
        self._edge = edge
        self.ref = ref
        self._stored = stored
        self._instance = instance
        self._ends = time.monotonic() + TURN_SECONDS

    @property
    def staging(self) -> Staging:
        """The staging as it is now."""
        return self._stored.staging

    async def claim(self) -> None:
        """Take or renew the lease. Raises Lost."""
        await self._write(
            self.staging.model_copy(update={"claimed_by": self._instance, "claimed_until": now() + CLAIM})
        )

    async def went_on(self, **changes: object) -> None:
        """Write progress, and renew the lease. Raises Lost."""
        await self._write(self.staging.progressed(now(), claimed_until=now() + CLAIM, **changes))

    async def step_done(self, **changes: object) -> None:
        """Write progress after which the turn may end. Raises Lost, TurnOver."""
        await self.went_on(**changes)
        if time.monotonic() > self._ends:
            raise TurnOver

    async def note(self, **changes: object) -> None:
        """Write something that is no progress. Raises Lost."""
        await self._write(self.staging.model_copy(update=changes))

    async def pause(self, reason: str, *, by_file: bool = False) -> None:
        """Write that the staging goes on later, and why, and end the lease. Raises Lost."""
        await self._write(self.staging.paused(reason, now(), by_file=by_file))

    async def release(self) -> None:
        """End the lease: any gateway may go on. Raises Lost."""
        await self._write(self.staging.model_copy(update={"claimed_by": ""}))

    async def staged(self, work: StagingWork, about: str) -> Staged:
        """Has the edge do a task, and waits for its end. Raises Paused, Lost, and RpcFailed with what it refused.

        `about` distinguishes the task from others of this staging. The same task after the same number of attempts is
        the same request, so another gateway or a restarted agent does not begin a second one.
        """
        name = f"{self.staging.id}/{self.staging.attempts}/{work.work}/{about}"
        request = Stage(
            id=hashlib.sha256(name.encode()).hexdigest()[:32],
            user=LocalUser.of(self.staging.user),
            work=work,
            wait_seconds=WAIT_SECONDS,
        )
        unreachable = moved = 0
        while True:
            asked_at = time.monotonic()
            try:
                answer = await self._edge.stage(self.ref, request)
            except RpcFailed as failed:
                if failed.error.kind != "unavailable":
                    raise
                unreachable += 1
                if unreachable >= UNREACHABLE_ATTEMPTS:
                    raise Paused(f"the edge does not stage files now: {failed.error.detail}") from None
                await asyncio.sleep(UNREACHABLE_SECONDS)
                await self._renew()
                continue
            if answer.state == "done":
                return answer
            unreachable = 0
            # A file of many hours goes on as long as its bytes do.
            await self._renew(moving=answer.moved_bytes > moved)
            moved = answer.moved_bytes
            await asyncio.sleep(asked_at + ASKED_SECONDS - time.monotonic())

    async def _renew(self, *, moving: bool = False) -> None:
        until = self.staging.claimed_until
        if until is None or until - now() < CLAIM - RENEWED:
            went_on = {"progressed_at": now()} if moving else {}
            await self.note(claimed_by=self._instance, claimed_until=now() + CLAIM, **went_on)

    async def _write(self, changed: Staging) -> None:
        written = await self._records.replace(self.ref, self._stored, changed)
        if written is None:
            raise Lost
        self._stored = written
