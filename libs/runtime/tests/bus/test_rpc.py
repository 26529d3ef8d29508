"""Requests and replies: results, errors, concurrency."""

import asyncio
import gzip
import json
import os
import time

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import CONTENT_ENCODING, GZIP
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import ClusterRef, TenantRef
from clusterra_contracts.rpc.edge import LogChunk, ReadLog
from clusterra_contracts.rpc.edge_folders import FolderPage, ListFolder, LocalUser
from clusterra_contracts.rpc.reply import Done, RpcError
from clusterra_contracts.rpc.slurm_nodes import DeleteNode, Drain
from clusterra_contracts.rpc.usage import ReadUsage, Usage
from clusterra_lab.machine.process import until
from clusterra_runtime import trace
from clusterra_runtime.nats import bus, rpc
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import Stored, replay
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.settings import ServiceSettings
from nats.aio.msg import Msg

NODE = DeleteNode(node="n1")


async def done(_about: Subject, _request: DeleteNode) -> Done:
    return Done()


async def failure(
    client: Client, subject: str, request: DeleteNode = NODE, *, timeout_seconds: float = 10.0
) -> RpcError:
    with pytest.raises(RpcFailed) as failed:
        await rpc.call(client, subject, request, Done, timeout_seconds=timeout_seconds)
    return failed.value.error


@pytest.mark.parametrize("turns", [1, 2, 3])
async def test_a_server_that_is_cancelled_while_it_begins_leaves_no_subscription(
    client: Client, ref: ClusterRef, turns: int
) -> None:
    subject = subjects.slurm(ref, "delete-node")
    beginning = asyncio.create_task(rpc.serve(client, subject, DeleteNode, done))
    for _ in range(turns):
        await asyncio.sleep(0)  # the server answers the flush no sooner than after these

    beginning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beginning

    assert (await failure(client, subject)).effect == "none"


async def test_the_server_knows_all_subscriptions_of_a_block_at_its_end(
    client: Client, settings: ServiceSettings, ref: ClusterRef
) -> None:
    server, names = await bus.connect(settings, "server"), ("delete-node", "add-node", "drain")

    async with server.subscribing():
        for name in names:
            await rpc.serve(server, subjects.slurm(ref, name), DeleteNode, done)
    replies = [await rpc.call(client, subjects.slurm(ref, name), NODE, Done, timeout_seconds=10.0) for name in names]
    await bus.close(server)

    assert replies == [Done()] * len(names)


async def test_a_request_is_answered_in_the_trace_of_the_caller(client: Client, ref: ClusterRef) -> None:
    received: list[tuple[ClusterRef, str, str | None]] = []

    async def handler(about: Subject, request: DeleteNode) -> Done:
        received.append((about.ref, request.node, trace.trace_id()))
        return Done()

    await rpc.serve(client, subjects.slurm(ref, "delete-node"), DeleteNode, handler)
    with trace.extract(None):
        assert await rpc.call(client, subjects.slurm(ref, "delete-node"), NODE, Done) == Done()
        assert received == [(ref, "n1", trace.trace_id())]


async def test_a_typed_error_is_returned_unchanged(client: Client, ref: ClusterRef) -> None:
    error = RpcError(kind="conflict", detail="it runs something", hint="drain it first", code=2001)

    async def handler(_about: Subject, _request: DeleteNode) -> Done:
        raise RpcFailed(error)

    await rpc.serve(client, subjects.slurm(ref, "delete-node"), DeleteNode, handler)

    assert await failure(client, subjects.slurm(ref, "delete-node")) == error


async def test_an_unexpected_error_is_returned_without_details(client: Client, ref: ClusterRef) -> None:
    async def handler(_about: Subject, _request: DeleteNode) -> Done:
        raise RuntimeError("the password is xyzzy")

    await rpc.serve(client, subjects.slurm(ref, "delete-node"), DeleteNode, handler)
    with trace.extract(None):
        error = await failure(client, subjects.slurm(ref, "delete-node"))

        assert error.kind == "unavailable"
        assert "xyzzy" not in error.model_dump_json()
        assert str(trace.trace_id()) in error.hint


async def test_a_missing_server_and_a_missing_answer_are_unavailable(client: Client, ref: ClusterRef) -> None:
    assert "no service answers it" in (await failure(client, subjects.slurm(ref, "delete-node"))).detail
    await client.subscribe(subjects.slurm(ref, "delete-node"))
    error = await failure(client, subjects.slurm(ref, "delete-node"), timeout_seconds=0.5)
    assert error.kind == "unavailable"
    assert "no answer" in error.detail


async def test_garbage_is_answered_invalid_and_becomes_one_dead_letter(client: Client, ref: ClusterRef) -> None:
    subject = subjects.slurm(ref, "delete-node")
    await rpc.serve(client, subject, DeleteNode, done)
    for _ in range(2):
        answer = await client.request(subject, b'{"node": 5}')
        assert json.loads(answer.data)["error"]["kind"] == "invalid"

    async def dead_letters() -> list[Stored]:
        return [letter async for letter in replay(client, "DLQ", subjects.dead_letter(subject))]

    (letter,) = await until(dead_letters, seconds=90, what="the dead letter")

    assert letter.body == b'{"node": 5}'


async def test_a_subject_with_invalid_ids_is_answered_invalid(client: Client) -> None:
    await rpc.serve(client, "slurm.*.*.delete-node", DeleteNode, done, queue="any")
    answer = await client.request("slurm.UPPER.c1.delete-node", NODE.model_dump_json().encode())
    assert json.loads(answer.data)["error"]["kind"] == "invalid"


async def test_an_answer_that_is_not_a_reply_is_no_fault_of_the_request(client: Client, ref: ClusterRef) -> None:
    subject = subjects.slurm(ref, "delete-node")

    async def nonsense(message: object) -> None:
        await message.respond(b"{}")  # type: ignore[attr-defined]

    await client.subscribe(subject, cb=nonsense)

    error = await failure(client, subject)

    assert (error.kind, error.internal) == ("unavailable", True)


async def test_an_answer_over_the_payload_limit_becomes_an_error(client: Client, ref: ClusterRef) -> None:
    class Page(Done):
        schema_name = "test.page.v1"
        noise: str

    async def handler(_about: Subject, _request: DeleteNode) -> Page:
        return Page(noise=os.urandom(client.max_payload).hex())

    await rpc.serve(client, subjects.slurm(ref, "delete-node"), DeleteNode, handler)
    error = await failure(client, subjects.slurm(ref, "delete-node"))

    assert (error.kind, error.internal, error.detail) == ("unavailable", True, "the answer is too large")


async def test_requests_run_concurrently_up_to_the_limit(client: Client, ref: ClusterRef) -> None:
    running = 0
    peak = 0
    go = asyncio.Event()

    async def handler(_about: Subject, _request: DeleteNode) -> Done:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await go.wait()
        running -= 1
        return Done()

    subject = subjects.slurm(ref, "delete-node")
    await rpc.serve(client, subject, DeleteNode, handler, concurrency=3)
    calls = [asyncio.create_task(rpc.call(client, subject, NODE, Done)) for _ in range(8)]
    await until(lambda: running == 3, seconds=90, what="three running requests")
    go.set()

    assert await asyncio.gather(*calls) == [Done()] * 8
    assert peak == 3


async def test_on_a_subject_of_all_tenants_one_holds_up_no_other_and_has_a_bounded_number_waiting(
    client: Client, ref: ClusterRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc, "MAX_WAITING", 10)
    began, go = list[str](), asyncio.Event()

    async def handler(about: Subject, _request: DeleteNode) -> Done:
        began.append(about.ref.tenant)
        await go.wait()
        return Done()

    other = ClusterRef(tenant=f"{ref.tenant}-b", cluster=ref.cluster)
    await rpc.serve(client, "slurm.*.*.delete-node", DeleteNode, handler, concurrency=8)
    subject = subjects.slurm(ref, "delete-node")
    many = [asyncio.create_task(rpc.call(client, subject, NODE, Done, timeout_seconds=120)) for _ in range(20)]
    await until(lambda: sum(each.done() for each in many) == 8, seconds=90, what="those beyond the bound to be refused")
    beside = asyncio.create_task(
        rpc.call(client, subjects.slurm(other, "delete-node"), NODE, Done, timeout_seconds=120)
    )
    await until(lambda: other.tenant in began, seconds=90, what="the request of the other tenant")
    assert began == [ref.tenant] * 2 + [other.tenant]
    go.set()

    answers = await asyncio.gather(*many, beside, return_exceptions=True)
    assert [each.error.effect for each in answers if isinstance(each, RpcFailed)] == ["none"] * 8
    assert answers.count(Done()) == 13


async def test_servers_of_a_queue_share_the_requests_about_a_tenant(client: Client, ref: ClusterRef) -> None:
    received: list[TenantRef] = []

    async def handler(about: TenantRef, _request: ReadUsage) -> Usage:
        received.append(about)
        return Usage(burn_rate_usd_per_hour=1.5, pending_bill_usd=0.0, running_jobs=1)

    tenant = TenantRef(tenant=ref.tenant)
    for _ in range(2):
        await rpc.serve_tenant(client, "usage.*", ReadUsage, handler, queue="scaler")
    usage = await rpc.call(client, subjects.usage(tenant), ReadUsage(), Usage)

    assert usage.burn_rate_usd_per_hour == 1.5
    assert received == [tenant]


async def test_close_waits_for_running_requests(settings: ServiceSettings, client: Client, ref: ClusterRef) -> None:
    server = await bus.connect(settings, "server")
    entered = asyncio.Event()
    go = asyncio.Event()

    async def handler(_about: Subject, request: Drain) -> Done:
        entered.set()
        await go.wait()
        node = DeleteNode(node=request.node)
        return await rpc.call(server, subjects.slurm(ref, "delete-node"), node, Done, timeout_seconds=60)

    await rpc.serve(client, subjects.slurm(ref, "delete-node"), DeleteNode, done)
    await rpc.serve(server, subjects.slurm(ref, "drain"), Drain, handler)
    drain = Drain(node="n1", reason="test")
    running = asyncio.create_task(rpc.call(client, subjects.slurm(ref, "drain"), drain, Done, timeout_seconds=60))
    await until(entered.is_set, seconds=60, what="the request to be handled")
    closing = asyncio.create_task(bus.close(server))
    await until(
        lambda: not [sub for sub in server._subscriptions if not sub._closed],
        seconds=30,
        what="the server to take no more",
    )
    go.set()

    assert await running == Done()

    await closing


async def test_an_answer_of_an_edge_that_would_take_gigabytes_is_refused_quickly(
    client: Client, ref: ClusterRef
) -> None:
    huge = gzip.compress(b'{"result":[' + b"1," * 8_000_000 + b"1]}")

    async def answer(message: Msg) -> None:
        await client.publish(message.reply, huge, headers={CONTENT_ENCODING: GZIP})

    await client.listen(subjects.edge(ref, "log"), answer)
    began = time.process_time()

    with pytest.raises(RpcFailed) as failed:
        await rpc.call(client, subjects.edge(ref, "log"), ReadLog(job_id="1", uid=1), LogChunk, timeout_seconds=30)

    assert failed.value.error.kind == "unavailable"
    assert time.process_time() - began < 2


async def test_an_answer_of_an_edge_with_too_many_values_is_refused_before_they_are_checked(
    client: Client, ref: ClusterRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc, "FOREIGN_REPLY_VALUES", 10)
    entry = b'{"name":"a","kind":"file","size":0,"modified_at":"2026-11-23T17:00:00Z"}'
    many = b'{"result":{"entries":[' + b",".join([entry] * 3) + b"]}}"

    async def answer(message: Msg) -> None:
        await client.publish(message.reply, many)

    await client.listen(subjects.edge(ref, "folder"), answer)
    request = ListFolder(user=LocalUser(uid=1000, gid=1000))

    with pytest.raises(RpcFailed) as failed:
        await rpc.call(client, subjects.edge(ref, "folder"), request, FolderPage)

    assert (failed.value.error.kind, failed.value.error.internal) == ("unavailable", True)


async def test_of_an_error_of_an_edge_only_the_beginning_of_its_text_is_taken(client: Client, ref: ClusterRef) -> None:
    async def refuse(_about: Subject, _request: ReadLog) -> LogChunk:
        raise RpcFailed(RpcError(kind="not_found", detail="x" * 900_000, hint="y" * 900_000))

    await rpc.serve(client, subjects.edge(ref, "log"), ReadLog, refuse)

    with pytest.raises(RpcFailed) as failed:
        await rpc.call(client, subjects.edge(ref, "log"), ReadLog(job_id="1", uid=1), LogChunk)

    assert (failed.value.error.kind, failed.value.error.detail) == ("not_found", "x" * rpc.FOREIGN_TEXT)
    assert len(failed.value.error.hint) == rpc.FOREIGN_TEXT
