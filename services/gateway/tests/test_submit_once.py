"""Many requests with one key while nobody knows its job: they share the looks for it."""

import asyncio
import time

import pytest
from clusterra_contracts.identity import ClusterRef, SlurmUser, now
from clusterra_contracts.rpc.deadlines import SETTLED_SECONDS
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.rpc.slurm import JobDescription, Submit, Submitted
from clusterra_gateway.http.requests.errors import RequestError
from clusterra_gateway.idempotency.key import ScopedKey
from clusterra_gateway.idempotency.table import IDEMPOTENCY
from clusterra_gateway.submits.keys import SubmitKeys
from clusterra_gateway.submits.submit_once import SubmitOnce
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.memory_store import MemoryStore

KEY = ScopedKey(ClusterRef(tenant="acme", cluster="main"), "ada", "once-only")
MESSAGE = Submit(
    user=SlurmUser(name="ada", uid=20001, gid=20001),
    email="ada@acme.example",
    script="#!/bin/sh\n",
    job=JobDescription(environment=("PATH=/bin",)),
    idempotency_key="once-only",
)
CLIENTS = 50


class Slurm:
    """Loses the answer to the first submit, and answers looks when it is told to."""

    def __init__(self) -> None:
        self.sent = 0
        self.looked, self.answer = asyncio.Event(), asyncio.Event()
        self.job: Submitted | None = None

    async def submit(self, _ref: ClusterRef, _submit: Submit) -> Submitted:
        self.sent += 1
        if self.sent == 1:
            raise RpcFailed(RpcError(kind="unavailable", detail="lost", effect="unknown"))
        self.looked.set()
        await self.answer.wait()
        if self.job is None:
            raise RpcFailed(RpcError(kind="not_found", detail="no job yet", effect="none"))
        return self.job


@pytest.mark.parametrize("found", [True, False])
async def test_all_who_wait_share_one_look(found: bool) -> None:
    async with MemoryStore() as store:
        await store.create_tables(IDEMPOTENCY)
        slurm = Slurm()
        once = SubmitOnce(SubmitKeys(store), slurm.submit)
        with pytest.raises(RequestError):
            await once.submit(KEY, MESSAGE, "hash")

        if found:
            slurm.job = Submitted(job_id="7", accepted_at=now())
        waiting = [asyncio.create_task(once.submit(KEY, MESSAGE, "hash")) for _ in range(CLIENTS)]
        waiting[0].cancel()
        await slurm.looked.wait()
        slurm.answer.set()
        answers = await asyncio.gather(*waiting[1:], return_exceptions=True)

        assert slurm.sent == 2, "more than one look"
        if found:
            assert {answer.job_id for answer in answers if isinstance(answer, Submitted)} == {"7"}
            assert all(isinstance(answer, Submitted) for answer in answers)
        else:
            assert all(isinstance(answer, RequestError) for answer in answers)
            with pytest.raises(RequestError):
                await once.submit(KEY, MESSAGE, "hash")
            assert slurm.sent == 3, "a look that is over serves nobody"


async def test_a_find_makes_no_job_and_leaves_the_key_to_nobody() -> None:
    async with MemoryStore() as store:
        await store.create_tables(IDEMPOTENCY)
        slurm, at = Slurm(), [time.time()]
        slurm.answer.set()
        once = SubmitOnce(SubmitKeys(store), slurm.submit, clock=lambda: at[0])
        with pytest.raises(RequestError):
            await once.submit(KEY, MESSAGE, "hash")

        with pytest.raises(RequestError):
            await once.find(KEY, MESSAGE, "hash")
        at[0] += SETTLED_SECONDS
        assert await once.find(KEY, MESSAGE, "hash") is None

        with pytest.raises(RequestError):
            await once.submit(KEY, MESSAGE, "hash")
