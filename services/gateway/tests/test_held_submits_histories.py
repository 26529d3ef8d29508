"""Random submits of one key, one after another and at the same time: every job that is made has its staging."""

import asyncio
import random
from typing import Any

from clusterra_contracts.identity import now
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.rpc.slurm import Submitted
from clusterra_gateway.http.requests.errors import OutcomeUnknown, QuotaExceeded
from clusterra_gateway.staging.staging_records import StagingRecords
from clusterra_gateway.staging.table import STAGING
from clusterra_gateway.submits.held_submits import HeldSubmits
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.memory_store import MemoryStore
from hypothesis import given
from hypothesis import strategies as st
from test_held_submits import JOB, PLAN, REF, stored

ENDS = ("answered", "answered", "answer lost", "broken off", "not sent", "over a quota", "no such job")


class History:
    """A Slurm that makes one job of a key, a store, and requests whose steps come in a random order."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.job: Submitted | None = None

    async def elsewhere(self) -> None:
        """Let others go on for a while."""
        for _ in range(self.chance.randint(0, 6)):
            await asyncio.sleep(0)

    async def send(self) -> Submitted | None:
        await self.elsewhere()
        end = self.chance.choice(ENDS)
        match end:
            case "not sent":
                raise RpcFailed(RpcError(kind="unavailable", detail=end, effect="none"))
            case "over a quota":
                raise QuotaExceeded(end)
            case "no such job" if self.job is None:
                return None
        made = self.job
        self.job = made or Submitted(job_id="42", accepted_at=now())
        await self.elsewhere()
        match end:
            case "answer lost":
                raise OutcomeUnknown(end)
            case "broken off":
                raise asyncio.CancelledError
        return self.job.model_copy(update={"repeated": made is not None})

    async def play(self, records: StagingRecords) -> None:
        """Send up to nine requests, in up to three rounds."""

        async def request() -> None:
            await self.elsewhere()
            await HeldSubmits(records).submit(REF, JOB, PLAN, self.send)

        for _ in range(self.chance.randint(1, 3)):
            requests = (request() for _ in range(self.chance.randint(1, 3)))
            await asyncio.gather(*requests, return_exceptions=True)


class SlowStore(MemoryStore):
    """A store whose reads and writes take random times."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    async def get(self, *which: Any, **options: Any) -> Any:
        await self._history.elsewhere()
        return await super().get(*which, **options)

    async def write(self, *which: Any, **options: Any) -> Any:
        await self._history.elsewhere()
        return await super().write(*which, **options)

    async def transact(self, *which: Any, **options: Any) -> Any:
        await self._history.elsewhere()
        return await super().transact(*which, **options)


@given(st.integers(min_value=0))
def test_a_job_that_was_made_is_staged_whatever_became_of_its_requests(seed: int) -> None:
    async def played() -> None:
        history = History(seed)
        store = SlowStore(history)
        await store.create_tables(STAGING)
        records = StagingRecords(store)

        await history.play(records)

        staging, marks = await stored(records), await records.unfinished()
        if history.job is not None:
            assert staging is not None
            assert not staging.over
            assert marks == ((REF, staging.id),)
        else:
            assert staging is None or staging.job_id is None

    asyncio.run(played())
