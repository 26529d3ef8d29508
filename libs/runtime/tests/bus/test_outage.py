"""The client while its server is away: it reconnects, and no call hangs."""

import asyncio

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.reply import Done
from clusterra_contracts.rpc.slurm_nodes import DeleteNode
from clusterra_contracts.scale import DesiredState
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus, rpc
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.direct import last, replay
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.settings import ServiceSettings

from .conftest import Usage, connected


def desired(generation: int) -> DesiredState:
    return DesiredState(generation=generation, fence=1, snapshot_generation=1, decided_at=now(), targets=())


async def lost(client: Client) -> None:
    await until(lambda: not client.is_connected, seconds=90, what="the lost connection")


async def test_subscriptions_and_requests_go_on_after_each_death_of_the_server(
    server: NatsServer, ref: ClusterRef
) -> None:
    received: list[int] = []

    async def handler(_about: Subject, message: DesiredState) -> None:
        received.append(message.generation)

    async def answer(_about: Subject, _request: DeleteNode) -> Done:
        return Done()

    async with connected(ServiceSettings(nats_url=server.url)) as client:
        await bus.subscribe(client, subjects.scale_desired(ref), DesiredState, handler)
        await rpc.serve(client, subjects.slurm(ref, "delete-node"), DeleteNode, answer)

        async def survive_death(death: int) -> None:
            usage = Usage()
            await server.kill()
            await lost(client)
            await until(lambda: usage.seconds > 1, seconds=90, what="some attempts to reconnect")
            assert usage.share < 0.5
            await server.restart()
            assert await client.wait_connected(30)
            assert not client.is_closed
            await bus.publish(client, subjects.scale_desired(ref), desired(death))
            await until(lambda: death in received, seconds=90, what="the message")
            assert await rpc.call(client, subjects.slurm(ref, "delete-node"), DeleteNode(node="n"), Done) == Done()

        for death in range(1, 3):
            await survive_death(death)


async def test_a_durable_publish_waits_for_the_server_and_is_stored_once(server: NatsServer, ref: ClusterRef) -> None:
    async with connected(ServiceSettings(nats_url=server.url)) as client:
        subject = subjects.event(ref, "node.down")
        await server.kill()
        waiting = asyncio.create_task(bus.publish_durable(client, subject, desired(1), message_id="once"))
        await lost(client)

        assert not waiting.done()

        await server.restart()
        sequence = await waiting

        assert await bus.publish_durable(client, subject, desired(1), message_id="once") == sequence
        assert len([message async for message in replay(client, "EVENT", subject)]) == 1


async def test_no_call_hangs_while_the_server_is_away(
    server: NatsServer, ref: ClusterRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus, "DURABLE_SECONDS", 0.3)
    monkeypatch.setattr("clusterra_runtime.nats.direct.REQUEST_SECONDS", 0.3)
    subject = subjects.scale_desired(ref)
    async with asyncio.timeout(90), connected(ServiceSettings(nats_url=server.url)) as client:
        await server.kill()
        await lost(client)

        with pytest.raises(BusUnavailable, match="not connected"):
            await bus.publish_durable(client, subject, desired(1), message_id="1")
        with pytest.raises(BusUnavailable, match="not connected"):
            await last(client, "SCALE", subject, DesiredState)
        with pytest.raises(RpcFailed, match="not connected"):
            await rpc.call(client, subject, DeleteNode(node="n"), Done, timeout_seconds=0.3)

        # This message stays in the client's buffer, and the client must close nevertheless.
        await bus.publish(client, subject, desired(1))


async def test_a_request_fails_when_its_connection_is_lost(server: NatsServer, ref: ClusterRef) -> None:
    asked = asyncio.Event()

    async def silent(_message: object) -> None:
        asked.set()

    async with connected(ServiceSettings(nats_url=server.url)) as client:
        await client.listen(subjects.slurm(ref, "delete-node"), silent)
        request = DeleteNode(node="n")
        calling = asyncio.create_task(rpc.call(client, subjects.slurm(ref, "delete-node"), request, Done))
        await asked.wait()
        await server.kill()

        with pytest.raises(RpcFailed, match="connection was lost"):
            await asyncio.wait_for(calling, 90)


async def test_a_connection_that_was_just_lost_does_not_count_as_connected() -> None:
    client = Client()
    client._up.set()
    assert not await client.wait_connected(0.01)


async def test_a_publish_that_failed_during_an_outage_is_not_sent_later(
    server: NatsServer, ref: ClusterRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus, "DURABLE_SECONDS", 0.3)
    subject = subjects.scale_desired(ref)
    async with connected(ServiceSettings(nats_url=server.url)) as client:
        await server.kill()
        await lost(client)

        with pytest.raises(BusUnavailable):
            await bus.publish_durable(client, subject, desired(1), message_id="1")

        await server.restart()

        assert await client.wait_connected(30)

        monkeypatch.undo()
        await bus.publish_durable(client, subjects.event(ref, "node.down"), desired(2), message_id="2")

        assert await last(client, "SCALE", subject, DesiredState) is None


async def test_connect_waits_for_a_server_that_starts_later(server: NatsServer) -> None:
    await server.kill()
    connecting = asyncio.create_task(bus.connect(ServiceSettings(nats_url=server.url), "early"))
    await asyncio.wait({connecting}, timeout=0.6)

    assert not connecting.done()

    await server.restart()
    client = await connecting

    assert client.is_connected

    await bus.close(client)


async def test_connect_can_be_cancelled(server: NatsServer) -> None:
    await server.kill()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(bus.connect(ServiceSettings(nats_url=server.url), "early"), 0.3)


async def test_a_cancelled_flush_neither_ends_the_read_loop_nor_completes_the_next_flush(
    client: Client, ref: ClusterRef
) -> None:
    given_up = asyncio.create_task(client.flush())
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    await client.flush()

    assert client._pongs == []
    assert await last(client, "SCALE", subjects.scale_desired(ref), DesiredState) is None


async def test_an_exception_of_a_callback_does_not_stop_a_reconnect(server: NatsServer) -> None:
    called: list[str] = []

    def broken() -> None:
        raise RuntimeError("not today")

    async with connected(ServiceSettings(nats_url=server.url)) as client:
        client.on_reconnect(broken)
        remove = client.on_reconnect(lambda: called.append("removed"))
        client.on_reconnect(lambda: called.append("kept"))
        remove()
        await server.kill()
        await lost(client)
        await server.restart()
        await until(lambda: called == ["kept"], seconds=90, what="the callback")

        assert client.is_connected
