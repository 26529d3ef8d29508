"""Leases on a real NATS server: replicas that stop, die or freeze, and a server that dies."""

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nats.errors
import nats.js.api
import pytest
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.lease_terms import PACE, Pace
from clusterra_runtime.settings import ServiceSettings
from nats.js import JetStreamContext

from .lease_replicas import (
    QUICK,
    SHARDS,
    SHARING_SECONDS,
    STREAM,
    Contender,
    Register,
    Replica,
    competed,
    keys,
    replicas,
    shared,
)


@pytest.fixture
def register() -> Register:
    return Register()


@pytest.fixture
async def client(nats: NatsServer) -> AsyncIterator[Client]:
    connection = await bus.connect(ServiceSettings(nats_url=nats.url), "test")
    yield connection
    await bus.close(connection)


@pytest.fixture
async def js(client: Client) -> JetStreamContext:
    context: JetStreamContext = client.jetstream()
    await context.create_key_value(bucket="leases", history=1, direct=True)
    return context


async def test_a_single_replica_holds_all_shards(client: Client, js: JetStreamContext, register: Register) -> None:
    async with replicas(client, register, "a") as (a,):
        await shared([a])
        leases = a.leases.held

        assert {lease.shard for lease in leases.values()} == set(range(SHARDS))
        assert len({lease.fence for lease in leases.values()}) == SHARDS
        assert {holding.fence for holding in register.holdings} == {lease.fence for lease in leases.values()}
        assert max(lease.fence for lease in leases.values()) < 2**53

    assert a.held == set()
    register.check()


async def test_renewed_leases_outlive_their_ttl(client: Client, js: JetStreamContext, register: Register) -> None:
    async with replicas(client, register, "a") as (a,):
        await shared([a])
        first = a.leases.held
        until_then = time.monotonic() + QUICK.ttl_seconds + QUICK.renew_seconds
        while time.monotonic() < until_then:
            assert a.leases.held == first
            await asyncio.sleep(0.02)

    assert len(register.holdings) == SHARDS


async def test_replicas_share_equally_and_a_stopping_replica_releases_its_leases(
    client: Client, js: JetStreamContext, register: Register
) -> None:
    async with replicas(client, register, "a", "b") as (a, b):
        await shared([a, b])
        async with replicas(client, register, "c") as (c,):
            await shared([a, b, c])
            stopped_at = time.monotonic()
            await c.stop()

            assert c.held == set()

            await shared([a, b])

            # Sooner than an expiry, so the lease was released.
            assert time.monotonic() - stopped_at < QUICK.ttl_seconds - QUICK.renew_seconds
    register.check()
    assert await keys(js) == set(), "replicas that stopped in order leave no keys"


async def test_old_and_new_divisions_work_by_turns_while_a_service_is_updated_and_rolled_back(
    client: Client, js: JetStreamContext, register: Register
) -> None:
    """The old release has one lease for everything, the new one has one for each shard."""

    def old(name: str) -> Replica:
        return Replica(client, name, register, shards=1)

    def new(name: str) -> Replica:
        return Replica(client, name, register, division="clusters/4")

    first, second = old("old-1"), old("old-2")
    await shared([first, second], shards=1)
    leading, idle = (first, second) if first.held else (second, first)

    third = new("new-1")
    await competed(client, third)
    assert (leading.held, third.held) == ({0}, set()), "the old replica still does all of the work"

    await idle.stop()
    fourth = new("new-2")
    await leading.stop()
    await shared([third, fourth])

    # Back again: the old replica waits for the lease of shard 0, and does all of the work once it has it.
    fifth = old("old-3")
    await competed(client, fifth)
    assert (len(third.held), len(fourth.held), fifth.held) == (2, 2, set()), "an old replica counts for no share"

    (holder, other) = (third, fourth) if 0 in third.held else (fourth, third)
    await holder.stop()
    await until(lambda: fifth.held == {0} or len(other.held) == SHARDS, seconds=30, what="the next holder")
    await until(lambda: not (fifth.held and other.held), seconds=30, what="one side only")
    await other.stop()
    await shared([fifth], shards=1)
    await fifth.stop()


async def test_the_leases_of_an_unreachable_replica_are_taken_over(
    nats: NatsServer, client: Client, js: JetStreamContext, register: Register
) -> None:
    cut_off = await bus.connect(ServiceSettings(nats_url=nats.url), "cut-off")
    a = Replica(cut_off, "a", register)
    await shared([a])
    async with replicas(client, register, "b") as (b,):
        await shared([a, b])
        await bus.close(cut_off)
        await until(lambda: not a.held, seconds=90, what="a to notice that its leases have ended")
        await shared([b])
        await a.stop()
    register.check()


async def test_a_lease_is_a_key_with_a_ttl(client: Client, js: JetStreamContext, register: Register) -> None:
    async with replicas(client, register, "a", shards=1) as (a,):
        await shared([a], shards=1)
        created = (await js.get_msg(STREAM, subject="$KV.leases.scaler.0")).seq

        async def renewed() -> Any:
            message = await js.get_msg(STREAM, subject="$KV.leases.scaler.0")
            return message if message.seq != created else None

        message = await until(renewed, seconds=90, what="a renewal")

        assert message.headers["Nats-TTL"] == str(QUICK.ttl_seconds)
        assert json.loads(message.data)["holder"].startswith("a-")


async def test_keys_that_a_killed_server_brought_back_hold_nothing(
    client: Client, js: JetStreamContext, register: Register
) -> None:
    # Without a time to live they stay, as the revived ones do.
    await js.publish("$KV.leases.scaler.member.dead", b"{}")
    await js.publish("$KV.leases.scaler.0", b"{}")
    async with replicas(client, register, "a") as (a,):
        await shared([a])

        assert await keys(js) >= {f"$KV.leases.scaler.{shard}" for shard in range(SHARDS)}
        assert "$KV.leases.scaler.member.dead" not in await keys(js)
    register.check()


async def test_the_leases_of_different_services_are_independent(
    client: Client, js: JetStreamContext, register: Register
) -> None:
    async with replicas(client, register, "a") as (scaler,):
        proxy = Replica(client, "p", Register(), service="proxy")
        await shared([proxy])
        await shared([scaler])
        await proxy.stop()


async def test_failed_work_is_restarted_under_a_new_lease(
    client: Client, js: JetStreamContext, register: Register
) -> None:
    async with replicas(client, register, "a", shards=1) as (a,):
        a.failures = 2

        def third() -> bool:
            return len(register.holdings) == 3 and a.held == {0}

        await until(third, seconds=90, what="the third attempt")
    register.check()


async def test_a_lost_answer_to_a_renewal_does_not_end_the_lease(
    client: Client, js: JetStreamContext, register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Deaf(type(js)):  # type: ignore[misc]
        lost = 0

        async def publish(self, subject: str, *args: Any, **options: Any) -> nats.js.api.PubAck:
            answer: nats.js.api.PubAck = await super().publish(subject, *args, **options)
            replaces = (options.get("headers") or {}).get("Nats-Expected-Last-Subject-Sequence", "0")
            if replaces != "0" and Deaf.lost < 3:
                Deaf.lost += 1
                raise nats.errors.TimeoutError
            return answer

    pace = Pace(ttl_seconds=5, renew_seconds=0.4, poll_seconds=0.2, margin_seconds=0.5)
    monkeypatch.setattr(client, "jetstream", lambda: Deaf(client))
    async with replicas(client, register, "a", shards=1, pace=pace) as (a,):
        await until(lambda: Deaf.lost == 3, seconds=90, what="three lost answers")
        until_then = time.monotonic() + pace.ttl_seconds
        while time.monotonic() < until_then:
            assert a.held == {0}
            await asyncio.sleep(0.02)

    assert len(register.holdings) == 1


async def test_fences_rise_over_the_loss_of_the_bucket(
    client: Client, js: JetStreamContext, register: Register
) -> None:
    async with replicas(client, register, "a", shards=1) as (a,):
        await shared([a], shards=1)
        # Raise the revisions, so that those of a new bucket are lower.
        for _ in range(100):
            await js.publish("$KV.leases.other", b"")
        await js.delete_key_value("leases")
        await until(lambda: not a.held, seconds=90, what="the loss")
        await js.create_key_value(bucket="leases", history=1, direct=True)
        await until(lambda: a.held == {0}, seconds=90, what="the lease in the new bucket")

    assert len(register.holdings) == 2
    register.check()


async def test_two_replicas_never_hold_the_same_shard_while_the_server_dies_and_returns(
    nats: NatsServer, js: JetStreamContext, client: Client, register: Register
) -> None:
    second = await bus.connect(ServiceSettings(nats_url=nats.url), "second")
    overlaps: list[set[int]] = []

    async def watch(one: Replica, other: Replica) -> None:
        while True:
            if both := one.held & other.held:
                overlaps.append(both)
            await asyncio.sleep(0.001)

    async with (
        replicas(client, register, "a") as (a,),
        replicas(second, register, "b") as (b,),
    ):
        watching = asyncio.create_task(watch(a, b))
        await shared([a, b])
        # After a short outage most leases continue. After an outage longer than their TTL, all are lost and reacquired.
        await nats.kill()
        await nats.restart()
        await shared([a, b])
        await nats.kill()
        await until(lambda: not a.held and not b.held, seconds=90, what="the loss of all leases")
        await until(
            lambda: all(holding.ended < float("inf") for holding in register.holdings),
            seconds=30,
            what="the work's end",
        )
        await nats.restart()
        await shared([a, b])
        watching.cancel()
    await bus.close(second)

    assert overlaps == []
    register.check()
    assert len(register.holdings) >= 2 * SHARDS


async def test_the_leases_of_a_killed_holder_are_taken_over_after_their_expiry(
    nats: NatsServer, client: Client, js: JetStreamContext, tmp_path: Path, register: Register
) -> None:
    holder = await Contender.begin(nats, tmp_path, "holder", QUICK)
    await holder.wait_acquired(SHARDS)
    async with replicas(client, register, "b") as (b,):
        await shared([b], shards=SHARDS // 2)
        holder.process.kill()
        await holder.process.wait()
        await until(lambda: b.held == set(range(SHARDS)), seconds=90, what="the takeover")

    before = {event["shard"]: event["fence"] for event in holder.events("acquired")}

    assert all(holding.fence > before[holding.shard] for holding in register.holdings)
    register.check()


def test_a_takeover_of_a_service_takes_less_than_ten_seconds() -> None:
    assert PACE.ttl_seconds + 1.2 * PACE.poll_seconds < 10 - 1, "a takeover takes up to a second longer"


async def test_a_frozen_holder_knows_immediately_that_its_leases_have_ended(
    nats: NatsServer, client: Client, js: JetStreamContext, tmp_path: Path, register: Register
) -> None:
    frozen = await Contender.begin(nats, tmp_path, "frozen", QUICK)
    try:
        await frozen.wait_acquired(SHARDS)
        frozen.process.signal(signal.SIGSTOP)
        async with replicas(client, register, "b") as (b,):
            await shared([b])
            frozen.process.signal(signal.SIGCONT)

            def thawed() -> list[dict[str, Any]]:
                return frozen.events("thawed") if len(frozen.events("ended")) == SHARDS else []

            (event, *_) = await until(thawed, seconds=90, what="the end of the frozen replica's work")

            assert event["held"] == []

            # It may acquire its share again, under new leases.
            await frozen.wait_acquired(SHARDS + SHARDS // 2)

            assert len(b.held) <= SHARDS

            for event in frozen.events("acquired")[SHARDS:]:
                ended = [t for t in register.holdings if t.shard == event["shard"] and t.fence < event["fence"]]
                assert all(holding.ended <= event["at"] for holding in ended)
                assert ended
        register.check()
    finally:
        frozen.process.kill()
        await frozen.process.wait()


async def test_a_late_renewal_is_rejected_by_the_server(
    client: Client, js: JetStreamContext, register: Register
) -> None:
    """The server rejects it, not our own clock: the old holder is made to believe that it still holds the lease."""
    async with replicas(client, register, "a", shards=1) as (a,):
        await shared([a], shards=1)
        holding = a.leases._held[0]
        await js.purge_stream(STREAM, subject="$KV.leases.scaler.0")
        usurper = await js.publish("$KV.leases.scaler.0", b"{}", msg_ttl=2)
        holding.deadline = float("inf")
        await until(lambda: register.holdings[0].ended < float("inf"), seconds=90, what="the rejection")
        stored = await js.get_msg(STREAM, subject="$KV.leases.scaler.0")

        assert (stored.seq, stored.data) == (usurper.seq, b"{}"), "neither renewed nor released by the old holder"

        await until(lambda: a.held == {0}, seconds=SHARING_SECONDS, what="the next lease")
    register.check()
