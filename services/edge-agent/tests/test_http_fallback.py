"""The agent while NATS is away: it gets the same desired states by HTTP, and returns to NATS by itself."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import quick_agent
from agent_process import REF
from clusterra_contracts.agent_http import new_key
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import now
from clusterra_contracts.scale import DesiredState, ShapeTarget
from clusterra_edge_agent.control.desired import LatestDesired
from clusterra_edge_agent.heartbeat.http_exchange import open_exchange
from clusterra_edge_agent.heartbeat.http_fallback import (
    CONNECTED_SECONDS,
    LIMIT_SECONDS,
    ExchangeFailed,
    HttpFallback,
    _jittered_backoff_seconds,
)
from clusterra_lab.kube.certificates import Authority
from clusterra_lab.machine.process import until
from clusterra_runtime.nats import bus
from edge_process import SHAPE, SPEC, Edge, running_edge
from gateway_stand_in import Failure, GatewayStandIn, gateway_stand_in
from hypothesis import given
from hypothesis import strategies as st

BEAT = Heartbeat(generation=1, sent_at=now(), agent_version="0.1.0", substrate="process", workers=())


def desired(replicas: int, *victims: str, generation: int, fence: int = 1) -> DesiredState:
    target = ShapeTarget(shape=SHAPE, worker=SPEC, replicas=replicas, victims=victims)
    return DesiredState(generation=generation, fence=fence, snapshot_generation=0, decided_at=now(), targets=(target,))


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "agent.key"
    file.write_text(f"{new_key()}\n")
    return file


@pytest.fixture
async def gateway() -> AsyncIterator[GatewayStandIn]:
    async with gateway_stand_in() as gateway:
        yield gateway


@pytest.fixture
async def edge(tmp_path: Path, gateway: GatewayStandIn, key_file: Path) -> AsyncIterator[Edge]:
    async with running_edge(tmp_path) as edge:
        edge.program = (quick_agent.__file__,)
        edge.environment = {"CLUSTERRA_GATEWAY_URL": gateway.url, "CLUSTERRA_AGENT_KEY_FILE": str(key_file)}
        yield edge
        assert edge.agent is not None
        assert key_file.read_text().strip() not in edge.agent.log.read_text()


async def heartbeat_by_http(gateway: GatewayStandIn, edge: Edge, condition: Callable[[Heartbeat], object]) -> Heartbeat:
    """Waits for a heartbeat by HTTP that fulfils the condition. The last received one counts too."""
    first = max(0, len(gateway.heartbeats) - 1)

    def matching() -> Heartbeat | None:
        return next((beat for beat in gateway.heartbeats[first:] if condition(beat)), None)

    return await until(matching, seconds=60, what="the heartbeat by HTTP", process=edge.agent)


async def applied_by_http(gateway: GatewayStandIn, edge: Edge, state: DesiredState) -> Heartbeat:
    gateway.desired = state

    def carried_out(beat: Heartbeat) -> bool:
        return beat.applied is not None and (beat.applied.fence, beat.applied.generation) == state.order

    return await heartbeat_by_http(gateway, edge, carried_out)


async def test_desired_states_arrive_by_http_while_nats_is_away(
    gateway: GatewayStandIn, edge: Edge, key_file: Path
) -> None:
    await edge.start()
    await edge.applied(await edge.desire(2))
    assert gateway.heartbeats == [], "no heartbeat by HTTP while NATS is there"

    await edge.server.kill()
    beat = await applied_by_http(gateway, edge, desired(3, generation=2))
    assert len(beat.workers or ()) == 3
    await edge.running_workers(3)
    victim = min(worker.name for worker in beat.workers or ())
    beat = await applied_by_http(gateway, edge, desired(2, victim, generation=3))
    beat = await heartbeat_by_http(gateway, edge, lambda beat: len(beat.workers or ()) == 2)
    assert victim not in {worker.name for worker in beat.workers or ()}
    killed = min(edge.workers())
    edge.workers()[killed].kill()
    await until(lambda: len(edge.workers()) == 2 and killed not in edge.workers(), seconds=60, what="the replacement")
    assert set(gateway.keys) == {key_file.read_text().strip()}

    edge.generation = 3
    edge.heartbeats.clear()
    await edge.server.restart()
    await edge.applied(await edge.desire(4))
    by_http = len(gateway.heartbeats)
    for count in (5, 6, 7):
        await edge.applied(await edge.desire(count))
    assert len(gateway.heartbeats) == by_http, "never both routes"
    generations = [beat.generation for beat in (*gateway.heartbeats, *edge.heartbeats)]
    assert generations == sorted(set(generations))

    async def all_published() -> bool:
        return [kind for kind, _ in await edge.events()].count("worker.started") == 9

    await until(all_published, seconds=60, what="the events of the meantime", process=edge.agent)


async def test_failed_exchanges_are_retried(gateway: GatewayStandIn, edge: Edge) -> None:
    agent = await edge.start()
    await edge.applied(await edge.desire(1))
    gateway.failures = ["lose", 503, "garbage"]
    await edge.server.kill()
    await applied_by_http(gateway, edge, desired(2, generation=2))
    assert len(gateway.heartbeats) >= 4
    assert agent.log.read_text().count("heartbeat_not_answered") == 3
    await edge.running_workers(2)

    gateway.desired = desired(9, generation=1)
    await until(
        lambda: "older_desired_state_ignored" in agent.tail(200),
        seconds=60,
        what="the older state to be ignored",
        process=agent,
    )
    gateway.desired = gateway.desired.model_copy(update={"targets": None, "generation": 3})
    await applied_by_http(gateway, edge, gateway.desired)
    assert len(edge.workers()) == 2, "no opinion changes nothing"


async def test_an_agent_can_start_without_nats(gateway: GatewayStandIn, edge: Edge, key_file: Path) -> None:
    gateway.desired = desired(2, generation=1)
    key = key_file.read_text()
    key_file.unlink()
    await edge.server.kill()
    agent = await edge.start()
    await until(
        lambda: "cannot be read" in agent.tail(200), seconds=60, what="the missing key to be logged", process=agent
    )
    key_file.write_text(key)
    await edge.running_workers(2)
    await edge.server.restart()
    edge.generation = 1

    await edge.applied(await edge.desire(3))

    assert await agent.stop(grace_seconds=20) == 0


async def test_an_agent_stops_while_it_waits_for_nats_and_the_gateway(gateway: GatewayStandIn, edge: Edge) -> None:
    gateway.always = "hang"
    await edge.server.kill()
    agent = await edge.start()
    await heartbeat_by_http(gateway, edge, lambda _send_heartbeats: True)
    assert await agent.stop(grace_seconds=20) == 0


@pytest.mark.parametrize("failure", [401, 403, 429, 500, 503, "lose", "garbage"])
async def test_a_failed_exchange_raises_without_revealing_the_key(
    gateway: GatewayStandIn, key_file: Path, failure: Failure
) -> None:
    gateway.failures = [failure]
    async with open_exchange(gateway.url, REF, key_file) as exchange:
        with pytest.raises(ExchangeFailed) as failed:
            await exchange(BEAT)
        assert failed.value.retry_after_seconds == (1.0 if isinstance(failure, int) else 0.0)
        assert key_file.read_text().strip() not in str(failed.value)
        assert await exchange(BEAT) is None

    assert gateway.heartbeats == [BEAT, BEAT]


async def test_the_key_is_not_sent_to_a_redirect(gateway: GatewayStandIn, key_file: Path) -> None:
    async with gateway_stand_in() as elsewhere, open_exchange(gateway.url, REF, key_file) as exchange:
        gateway.failures = [f"{elsewhere.url}/v1/internal/agent/heartbeat"]
        with pytest.raises(ExchangeFailed, match="307"):
            await exchange(BEAT)
        assert elsewhere.keys == []


async def test_the_gateways_certificate_is_verified(
    tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority.new("a site's own authority")
    pair = authority.server("gateway", ["127.0.0.1"])
    (tmp_path / "tls.pem").write_text(pair.certificate + pair.key)
    (tmp_path / "ca.pem").write_text(authority.certificate)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "tls.pem")
    async with gateway_stand_in(tls) as gateway, open_exchange(gateway.url, REF, key_file) as exchange:
        with pytest.raises(ExchangeFailed, match="certificate"):
            await exchange(BEAT)
        assert gateway.keys == []


async def test_the_error_names_a_file_without_a_key(gateway: GatewayStandIn, key_file: Path) -> None:
    key_file.write_text("a secret\nof something else")
    async with open_exchange(gateway.url, REF, key_file) as exchange:
        with pytest.raises(ExchangeFailed, match=r"agent\.key contains no agent key") as failed:
            await exchange(BEAT)
    assert "secret" not in str(failed.value)
    assert gateway.keys == []


async def test_a_reply_counts_as_a_connection_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def make() -> Heartbeat:
        return BEAT

    latest = LatestDesired(tmp_path)
    fallback = HttpFallback(bus.Client(), make, latest)
    seconds = 100.0
    monkeypatch.setattr("clusterra_edge_agent.heartbeat.http_fallback.time.monotonic", lambda: seconds)
    assert not fallback.connected
    fallback._handle_reply(desired(1, generation=1))
    assert fallback.connected
    assert latest.current is not None
    seconds += CONNECTED_SECONDS - 0.1
    assert fallback.connected
    seconds += 0.2
    assert not fallback.connected


async def test_a_standby_agent_is_silent_until_it_may_report(tmp_path: Path) -> None:
    said, may_report, due = list[Heartbeat](), False, asyncio.Event()

    async def make() -> Heartbeat:
        return BEAT

    async def exchange(heartbeat: Heartbeat) -> None:
        said.append(heartbeat)

    fallback = HttpFallback(bus.Client(), make, LatestDesired(tmp_path), lambda: may_report)
    beating = asyncio.create_task(fallback._send_heartbeats(exchange, due))
    for _ in range(2):
        await asyncio.sleep(0)
        assert not said
        due.set()
    may_report = True
    due.set()
    await until(lambda: said, seconds=60, what="a heartbeat")
    beating.cancel()
    with suppress(asyncio.CancelledError):
        await beating


@given(st.integers(1, 10_000))
def test_pauses_grow_to_a_limit_with_jitter(failures: int) -> None:
    pause = _jittered_backoff_seconds(failures)
    assert min(LIMIT_SECONDS, 2.0 ** min(failures - 1, 10)) / 2 <= pause <= LIMIT_SECONDS


async def test_a_removal_is_confirmed_by_the_reply_to_a_heartbeat_of_its_own(tmp_path: Path) -> None:
    answers: list[DesiredState | None] = [desired(1, generation=1), desired(2, generation=2)]

    async def make() -> Heartbeat:
        return BEAT

    async def exchange(heartbeat: Heartbeat) -> DesiredState | None:
        if not answers:
            raise ExchangeFailed("the gateway is away")
        return answers.pop(0)

    latest = LatestDesired(tmp_path)
    fallback = HttpFallback(bus.Client(), make, latest)
    beating = asyncio.create_task(fallback._send_heartbeats(exchange, fallback._due))
    try:
        await until(lambda: latest.current is not None, seconds=60, what="the first reply")

        newest = await fallback.read_newest()

        assert newest is not None
        assert newest.generation == 2
        assert latest.current is newest
        assert await fallback.read_newest() is None
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating
