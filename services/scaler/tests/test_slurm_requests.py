"""Requests to Slurm: those that fail are repeated, ever more seldom; which answers are a reason to decide."""

import asyncio
import time
from itertools import pairwise

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.reply import Done, RpcError
from clusterra_contracts.rpc.slurm_nodes import DeleteNode, Drain, Drained
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


async def test_a_deleted_record_is_no_reason_to_decide_but_a_record_that_stays_is(
    client: Client, ref: ClusterRef
) -> None:
    deleted: list[str] = []
    answers = 0

    async def delete(_: Subject, request: DeleteNode) -> Done:
        deleted.append(request.node)
        if request.node == "busy":
            raise RpcFailed(RpcError(kind="conflict", detail="a job runs there"))
        return Done()

    def count() -> None:
        nonlocal answers
        answers += 1

    serving = await serve(client, subjects.slurm(ref, "delete-node"), DeleteNode, delete)
    requests = SlurmRequests(client, ref, may_send=lambda: True, on_answer=count)

    requests.send([DeleteNode(node="gone")])
    await until(lambda: requests.take_answers(), seconds=30.0, what="the first answer")
    after_the_first = answers
    requests.send([DeleteNode(node="busy")])
    await until(lambda: requests.take_answers(), seconds=30.0, what="the second answer")
    await requests.close()
    await serving.unsubscribe()

    assert deleted == ["gone", "busy"]
    assert (after_the_first, answers) == (0, 1)
