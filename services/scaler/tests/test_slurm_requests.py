"""Requests to Slurm that fail: each is repeated, and ever more seldom."""

import asyncio
import time
from itertools import pairwise

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.rpc.slurm_nodes import Drain, Drained
from clusterra_lab.machine.process import until
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.rpc import RpcFailed, serve
from clusterra_scaler.requests import RETRY_SECONDS, SlurmRequests

FAILURES = 3


async def test_a_request_that_fails_again_and_again_is_sent_ever_more_seldom(client: Client, ref: ClusterRef) -> None:
    received: list[float] = []
    answered = asyncio.Event()
    drain = Drain(node="general-large-1", reason="clusterra: idle")

    async def answer(_: Subject, __: Drain) -> Drained:
        received.append(time.monotonic())
        if len(received) <= FAILURES:
            raise RpcFailed(RpcError(kind="unavailable", detail="too busy"))
        return Drained(accepted_at=now())

    serving = await serve(client, subjects.slurm(ref, "drain"), Drain, answer)
    requests = SlurmRequests(client, ref, may_send=lambda: True, on_answer=answered.set)

    def accepted() -> bool:
        requests.send([drain])
        return any(each.outcome == "done" for each in requests.take_answers())

    await until(accepted, seconds=30.0, what="the drain is not accepted")
    await requests.close()
    await serving.unsubscribe()

    assert len(received) == FAILURES + 1
    for number, (before, after) in enumerate(pairwise(received)):
        # Each pause has a jitter of one half.
        assert after - before >= RETRY_SECONDS * 2**number / 2
