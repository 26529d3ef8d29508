"""The account of each cluster at a real nats-server: what passes, and what an edge-agent cannot reach by replies."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import nats.errors
import nats.js.errors
import pytest
from admin_command import admin
from clusterra_admin.secrets import declared, nats_jwt, nats_operator
from clusterra_admin.secrets.directory import Directory
from clusterra_admin.secrets.nats_accounts import Accounts
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.permissions import inbox_prefix
from clusterra_contracts.bus.topology import DLQ, EDGE_EVENT
from clusterra_contracts.events import AGENT_KINDS
from clusterra_contracts.identity import ClusterRef
from clusterra_lab.machine.process import until
from clusterra_runtime.nats import bus
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from operator_server import Installation, flushed, installed

pytestmark = pytest.mark.servers

MINE = ClusterRef(tenant="acme", cluster="c1")
THEIRS = ClusterRef(tenant="rival", cluster="c1")
LATER = ClusterRef(tenant="rival", cluster="later")
STREAMS = ("SCALE", "JOB", "EVENT", "EDGE_EVENT", "HB", "DLQ", "KV_registry", "KV_leases", "KV_versions")
READ = f"$JS.API.DIRECT.GET.SCALE.{subjects.scale_desired(MINE)}"
ALLOWED = {
    "read": (READ, b""),
    "read with a body": (READ, b'{"seq":1}'),
    "heartbeat": (subjects.heartbeat(MINE), b"{}"),
    "event": (subjects.event(MINE, "worker.started"), b"{}"),
    "dead letter": (subjects.dead_letter(subjects.scale_desired(MINE)), b"{}"),
}


@pytest.fixture(scope="module")
async def installation(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    async with installed(tmp_path_factory.mktemp("accounts"), (MINE, THEIRS)) as installation:
        yield installation


def ids(ref: ClusterRef) -> tuple[str, ...]:
    return "--tenant", ref.tenant, "--cluster", ref.cluster


def answers(content: bytes) -> Callable[[Msg], Awaitable[None]]:
    async def answer(request: Msg) -> None:
        await request.respond(content)

    return answer


async def stored(client: Client, names: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """The number of messages and the last sequence of each stream."""
    states = {name: (await client.jetstream().stream_info(name)).state for name in names}
    return {name: (state.messages, state.last_seq) for name, state in states.items()}


@pytest.mark.parametrize("allowed", ALLOWED)
async def test_a_reply_subject_of_an_agent_reaches_nothing_of_the_control_plane(
    allowed: str, installation: Installation
) -> None:
    async with (
        installation.connected(installation.central("admin")) as central,
        installation.connected(installation.agent(MINE), inbox=inbox_prefix(MINE)) as agent,
        installation.connected(installation.agent(THEIRS), inbox=inbox_prefix(THEIRS)) as victim,
    ):
        js = central.jetstream()
        names = tuple(info.config.name or "" for info in await js.streams_info())
        assert set(STREAMS) <= set(names)
        for subject in (subjects.scale_desired(MINE), subjects.event(THEIRS, "job.completed")):
            await js.publish(subject, b"{}")
        seen = await central.subscribe(">")
        received = await victim.subscribe(subjects.scale_desired(THEIRS))
        await flushed(central)
        await flushed(victim)
        before = await stored(central, names)

        attacks = [f"$JS.API.STREAM.{verb}.{name}" for verb in ("PURGE", "DELETE") for name in names]
        attacks += [
            subjects.scale_desired(THEIRS),
            subjects.heartbeat(THEIRS),
            subjects.event(THEIRS, "job.completed"),
            "$KV.registry.rival.c1",
            subjects.edge(THEIRS, "log"),
            "_INBOX_gateway.x",
            "$JS.API.CONSUMER.CREATE.EVENT",
        ]
        subject, body = ALLOWED[allowed]
        for attack in attacks:
            await agent.publish(subject, body, reply=attack)
        await flushed(agent)
        # The answers of JetStream come later than those of the server: the last one is asked for.
        await agent.request(READ, timeout=10)
        await js.publish(subjects.event(MINE, "job.completed"), b"{}")
        await flushed(central)
        after = await stored(central, names)

        assert {message.subject for message in _pending(seen)}.isdisjoint(attacks)
        assert not _pending(received)
        takes = {"heartbeat": {"HB"}, "event": {"EDGE_EVENT"}, "dead letter": {"DLQ"}}.get(allowed, set()) | {"EVENT"}
        assert {name for name in names if before[name] != after[name]} <= takes | {"KV_versions", "ADVISORY"}
        assert all(after[name][0] >= before[name][0] for name in names if name not in ("HB", "DLQ"))


async def test_an_agent_cannot_acknowledge_messages_of_the_control_plane(installation: Installation) -> None:
    async with (
        installation.connected(installation.central("admin")) as central,
        installation.connected(installation.agent(MINE), inbox=inbox_prefix(MINE)) as agent,
    ):
        js = central.jetstream()
        for _ in range(2):
            await js.publish(subjects.event(THEIRS, "job.completed"), b"{}")
        consumer = await js.pull_subscribe("event.>", durable="victim", stream="EVENT")
        message, barrier = await consumer.fetch(2, timeout=5)
        waiting = (await js.consumer_info("EVENT", "victim")).num_ack_pending

        for subject, body in ALLOWED.values():
            await agent.publish(subject, body, reply=message.reply)
        await flushed(agent)
        # The server takes acknowledgements of a consumer in the order of their arrival.
        await barrier.ack_sync(timeout=5)
        after = (await js.consumer_info("EVENT", "victim")).num_ack_pending

        assert (waiting, after) == (2, 1)


def _pending(subscription: Subscription) -> list[Msg]:
    queue = subscription._pending_queue
    return [queue.get_nowait() for _ in range(queue.qsize())]


async def test_an_agents_event_is_acknowledged_and_stored_apart_with_its_headers(installation: Installation) -> None:
    headers = {"Nats-Msg-Id": "w1:1:started", "traceparent": "00-1-2-01"}
    subject = subjects.event(MINE, "worker.started")
    async with (
        installation.connected(installation.central("admin")) as central,
        installation.connected(installation.agent(MINE), inbox=inbox_prefix(MINE)) as agent,
    ):
        first = await agent.jetstream().publish(subject, b"{}", headers=headers)
        found = await central.jetstream().get_msg("EDGE_EVENT", first.seq)

    assert first.stream == "EDGE_EVENT"
    assert (found.subject, found.headers) == (subjects.edge_event(MINE, "worker.started"), headers)


async def test_an_agent_publishes_on_few_subjects_and_none_of_its_choice(installation: Installation) -> None:
    errors: list[str] = []
    async with installation.connected(installation.agent(MINE), errors, inbox_prefix(MINE)) as agent:
        for subject in (
            subjects.event(MINE, "worker.invented"),
            subjects.event(MINE, "job.completed"),
            subjects.edge_event(MINE, "worker.started"),
            subjects.dead_letter(subjects.edge(MINE, "invented")),
            subjects.dead_letter(subjects.heartbeat(MINE)),
        ):
            errors.clear()
            await agent.publish(subject, b"{}")
            await flushed(agent)
            assert any("permissions violation" in error for error in errors), subject


async def test_an_agent_that_floods_is_refused_and_others_are_not(installation: Installation) -> None:
    most = EDGE_EVENT.bounds.messages_per_subject
    async with (
        installation.connected(installation.central("admin")) as central,
        installation.connected(installation.agent(MINE), inbox=inbox_prefix(MINE)) as agent,
        installation.connected(installation.agent(THEIRS), inbox=inbox_prefix(THEIRS)) as other,
    ):
        before = await stored(central, ("EVENT",))
        for subject in (*(subjects.event(MINE, kind) for kind in AGENT_KINDS), subjects.heartbeat(MINE)):
            for _ in range(most + 500):
                await agent.publish(subject, bytes(1000))
            await flushed(agent)
        for dead in (subjects.scale_desired(MINE), subjects.edge(MINE, "log")):
            for number in range(1000):
                await agent.publish(subjects.dead_letter(dead), b"%d" % number + bytes(100_000))
            await flushed(agent)

        with pytest.raises(nats.js.errors.ServiceUnavailableError, match="maximum messages per subject"):
            await agent.jetstream().publish(subjects.event(MINE, "worker.started"), b"{}")
        for kind in AGENT_KINDS:
            assert (await other.jetstream().publish(subjects.event(THEIRS, kind), b"{}")).stream == "EDGE_EVENT"
        states = {name: (await central.jetstream().stream_info(name)).state for name in ("EDGE_EVENT", "HB", "DLQ")}

        assert await stored(central, ("EVENT",)) == before
        assert states["EDGE_EVENT"].messages <= (most + 2) * len(AGENT_KINDS)
        assert states["HB"].messages <= 2
        assert states["DLQ"].bytes < 3 * DLQ.bounds.messages_per_subject * DLQ.bounds.message_bytes


async def test_an_agent_answers_requests_and_receives_a_pushed_state_with_its_headers(
    installation: Installation,
) -> None:
    async with (
        installation.connected(installation.central("gateway"), inbox="_INBOX_gateway") as gateway,
        installation.connected(installation.central("scaler"), inbox="_INBOX_scaler") as scaler,
        installation.connected(installation.agent(MINE), inbox=inbox_prefix(MINE)) as agent,
    ):
        requests = await agent.subscribe(subjects.edge(MINE, "*"))
        pushed = await agent.subscribe(subjects.scale_desired(MINE))
        await flushed(agent)
        asking = asyncio.create_task(
            gateway.request(subjects.edge(MINE, "log"), b"?", timeout=5, headers={"traceparent": "t"})
        )
        request = await requests.next_msg(timeout=5)
        await agent.publish(request.reply, b"answer", headers={"kind": "chunk"})
        answer = await asking
        await scaler.jetstream().publish(subjects.scale_desired(MINE), b"desired", headers={"traceparent": "s"})
        state = await pushed.next_msg(timeout=5)

        assert (request.subject, request.data) == (subjects.edge(MINE, "log"), b"?")
        assert (request.headers or {})["traceparent"] == "t"
        assert (answer.data, answer.headers) == (b"answer", {"kind": "chunk"})
        assert (state.data, (state.headers or {})["traceparent"]) == (b"desired", "s")


async def test_a_request_to_a_cluster_without_an_agent_fails(installation: Installation) -> None:
    async with installation.connected(installation.central("gateway"), inbox="_INBOX_gateway") as gateway:
        with pytest.raises((nats.errors.NoRespondersError, nats.errors.TimeoutError)) as caught:
            await gateway.request(subjects.edge(THEIRS, "log"), b"?", timeout=3)

    assert caught.type is nats.errors.NoRespondersError


async def test_an_account_that_is_sent_adds_a_cluster_and_disturbs_no_other(tmp_path: Path) -> None:
    async with installed(tmp_path, (MINE,)) as installation:
        resolver = installation.secrets / declared.RESOLVER
        for offline in ("system", "account"):
            (installation.secrets / f"nats/{offline}.nk").unlink()
        async with (
            installation.connected(installation.central("admin")) as central,
            installation.connected(installation.agent(MINE), inbox=inbox_prefix(MINE)) as agent,
        ):
            pushed = await agent.subscribe(subjects.scale_desired(MINE))
            await agent.subscribe(subjects.edge(MINE, "*"), cb=answers(b"here"))
            await flushed(agent)
            before = resolver.read_text()
            added = await admin("secrets", "init", str(installation.secrets), *ids(LATER))

            assert "updated    nats/resolver.conf" in added.out
            assert "the authority sends it to every nats-server" in added.out
            assert len(set(before.splitlines()) - set(resolver.read_text().splitlines())) == 1

            await installation.send_accounts()

            async def admitted() -> bool:
                try:
                    async with installation.connected(installation.agent(LATER)):
                        return True
                except (nats.errors.Error, OSError):
                    return False

            await until(admitted, seconds=90, what="the account of the new cluster")
            async with installation.connected(installation.agent(LATER), inbox=inbox_prefix(LATER)) as later:
                ack = await later.jetstream().publish(subjects.event(LATER, "worker.started"), b"{}")
                await later.subscribe(subjects.edge(LATER, "*"), cb=answers(b"there"))
                await flushed(later)

                assert ack.stream == "EDGE_EVENT"
                assert (await central.request(subjects.edge(LATER, "log"), timeout=5)).data == b"there"

            await central.jetstream().publish(subjects.scale_desired(MINE), b"desired")

            assert (await pushed.next_msg(timeout=5)).data == b"desired"
            assert (await agent.request(READ, timeout=5)).data == b"desired"
            assert (await central.request(subjects.edge(MINE, "log"), timeout=5)).data == b"here"


async def test_a_revoked_login_is_cut_and_stays_so_when_resolver_conf_is_made_again(tmp_path: Path) -> None:
    async with installed(tmp_path, (MINE, THEIRS)) as installation:
        secrets = installation.secrets
        stolen = secrets / "stolen.creds"
        shutil.copy(installation.agent(MINE), stolen)
        renewed = await admin("secrets", "agent", str(secrets), *ids(MINE), "--days", "7")

        assert "valid for 7 days" in renewed.out

        stays = await bus.connect(installation.server.settings("admin"), "stays")
        async with (
            installation.connected(installation.agent(MINE)) as agent,
            installation.connected(installation.agent(THEIRS)) as other,
        ):
            installation.agent(MINE).unlink()
            await admin("secrets", "revoke", str(secrets), *ids(MINE))
            await admin("secrets", "init", str(secrets), "--replace", declared.RESOLVER)
            await installation.send_accounts()

            await until(lambda: agent.is_closed, seconds=90, what="the end of the revoked connection")

            assert other.is_connected

        assert stays.is_connected
        await bus.close(stays)
        with pytest.raises(nats.errors.Error):
            async with installation.connected(stolen):
                pass

        await admin("secrets", "agent", str(secrets), *ids(MINE))

        async with installation.connected(installation.agent(MINE)) as again:
            assert again.is_connected


async def test_a_login_made_in_the_second_of_a_revocation_is_valid_and_is_revoked_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await admin("secrets", "init", str(tmp_path), *ids(MINE))
    place, moment = Directory(tmp_path), int(time.time())
    monkeypatch.setattr(time, "time", lambda: float(moment))

    def revoke() -> int:
        text = nats_operator.revoked(place, MINE)
        place.write(declared.RESOLVER, text.encode(), declared.MOUNTED, replace=True)
        return Accounts.read(text).edges[MINE].revoked_at

    first = revoke()
    (login,) = nats_jwt.jwts_in(nats_operator.agent_credentials(place, MINE, 7))
    second = revoke()

    assert first < nats_jwt.claims_of(login)["iat"] <= second


MIB = 1024 * 1024


async def test_a_service_may_send_the_queue_of_a_large_cluster(installation: Installation) -> None:
    async with installation.connected(installation.central("proxy"), inbox="_INBOX_proxy") as proxy:
        stored = await proxy.jetstream().publish(subjects.job_pending(MINE), b"x" * 5_000_000)

        assert stored.stream == "JOB"
        assert proxy.max_payload == 8 * MIB


@pytest.mark.parametrize("over", [1, MIB])
async def test_an_agent_may_not_send_more_than_a_mebibyte(over: int, installation: Installation) -> None:
    async with installation.connected(installation.central("admin")) as central:
        before = await stored(central, ("HB", "JOB"))
        async with installation.connected(installation.agent(MINE), inbox=inbox_prefix(MINE)) as agent:
            await agent.publish(subjects.heartbeat(MINE), b"x" * 1024)
            await flushed(agent)
            await agent.publish(subjects.heartbeat(MINE), b"x" * (MIB + over))

            await until(lambda: not agent.is_connected, seconds=30, what="the server to end the connection")
        after = await stored(central, ("HB", "JOB"))

    assert after["HB"][1] == before["HB"][1] + 1
    assert after["JOB"] == before["JOB"]
