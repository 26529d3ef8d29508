"""Agents that speak HTTP: their authentication, what reaches the bus, and the replies they get."""

import re
import time
import uuid
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from clusterra_contracts.agent_http import KEY_HEADER, PATH, new_key
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import MESSAGE_ID
from clusterra_contracts.bus.large_queue import encode_large
from clusterra_contracts.bus.topology import HB, JOB, SCALE
from clusterra_contracts.heartbeat import Heartbeat, Worker
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import QueueSnapshot, RunningJob
from clusterra_contracts.scale import DesiredState, ShapeTarget
from clusterra_contracts.shapes import WorkerSpec
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.app import gateway_on
from clusterra_gateway.clusters.agents.keys import MAX_KEYS, AgentKeyOwner, put_agent_key
from clusterra_gateway.clusters.agents.translation import version_of
from clusterra_gateway.settings import Settings
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import until
from clusterra_lab.parts.declared_nats import declared_nats
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.registry import delete_binding
from clusterra_runtime.service import Service
from clusterra_runtime.store.outbox import Outbox
from gateway_world import World, apply_file, provisioned, running
from issuer_stand_in import IssuerStandIn

REF = ClusterRef(tenant="acme", cluster="main")
SPEC = WorkerSpec(cpus=2, memory_mib=4096)
DOCUMENTED: dict[str, Any] = {
    "cluster_id": "main",
    "agent_version": "5.0.0",
    "capacity_pods": {"compute-xs": {"count": 2}},
    "last_applied_version": 0,
    "agent_ip": "10.0.0.7",
    "k8s_nodes": ["n1", "n2"],
    "nodeclaims": [
        {
            "name": "c1",
            "instance_id": "i-1",
            "instance_type": "c7g.large",
            "lifecycle": "spot",
            "zone": "use1-az1",
            "nodepool": "compute",
            "node_name": "n1",
            "billable_from": "2026-03-01T12:00:00.123456789Z",
            "launched": True,
        }
    ],
    "prices": [{"instance_type": "c7g.large", "lifecycle": "spot", "zone": "use1-az1", "usd_per_hour": 0.03}],
}


@dataclass
class Agent:
    """An agent of acme's cluster and its connection to one gateway."""

    world: World
    http: aiohttp.ClientSession
    key: str

    async def post(self, body: dict[str, Any] | None = None, **changed: Any) -> dict[str, Any]:
        """Sends a heartbeat, which must succeed, and returns the reply."""
        async with self.http.post(PATH, json=(body or DOCUMENTED) | changed, headers={KEY_HEADER: self.key}) as answer:
            assert answer.status == 200, await answer.text()
            reply: dict[str, Any] = await answer.json()
            return reply

    async def status(self, key: str | None, **changed: Any) -> int:
        """Sends a heartbeat with this key and returns the status of the response."""
        headers = {} if key is None else {KEY_HEADER: key}
        async with self.http.post(PATH, json=DOCUMENTED | changed, headers=headers) as answer:
            if answer.status != 200:
                assert answer.content_type == "application/problem+json"
            return answer.status

    async def heartbeat(self) -> Heartbeat | None:
        """The last heartbeat on the bus."""
        found = await bus.last(self.world.client, HB.name, subjects.heartbeat(REF), Heartbeat)
        return None if found is None else found[0]


def replicas(reply: dict[str, Any]) -> dict[str, int]:
    """The number of workers of each shape in a reply."""
    return {command["name"]: command["replicas"] for command in reply["scaling_commands"]}


async def provision(world: World, tenant: str, cluster: str, **fields: Any) -> None:
    async with Outbox(world.store, lambda *_message: bus.store(world.client, *_message)) as outbox:
        given = provisioned(tenant, cluster)
        given["clusters"] = [given["clusters"][0] | fields]  # type: ignore[index]
        await apply_file(Directory(world.store, outbox), given)


async def provision_agent_key(
    world: World, folder: Path, tenant: str = "acme", cluster: str = "main", **fields: Any
) -> str:
    """Gives a cluster a new agent key and returns it."""
    key = new_key()
    (folder / f"{tenant}.key").write_text(f"{key}\n")
    await provision(world, tenant, cluster, agent_key=f"file:{folder / tenant}.key", **fields)
    return key


async def publish_desired_state(
    world: World, count: int | None, *victims: str, fence: int = 1, generation: int = 1
) -> DesiredState:
    target = ShapeTarget(shape="compute-xs", worker=SPEC, replicas=count or 0, victims=victims)
    state = DesiredState(
        generation=generation,
        fence=fence,
        snapshot_generation=1,
        decided_at=now(),
        targets=None if count is None else (target,),
    )
    await bus.publish_durable(world.client, subjects.scale_desired(REF), state, message_id=uuid.uuid4().hex)
    return state


async def publish_snapshot(world: World, *busy: str) -> None:
    jobs = tuple(
        RunningJob(job_id=str(number), uid=20001, user="ada", nodes=(node,), cpus=1, started_at=now())
        for number, node in enumerate(busy, 1)
    )
    snapshot = QueueSnapshot(generation=1, taken_at=now(), pending=(), running=jobs, nodes=())
    await bus.publish_durable(world.client, subjects.job_pending(REF), snapshot, message_id=uuid.uuid4().hex)


@pytest.fixture
def no_rate_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterra_gateway.clusters.agents.heartbeats.EVERY_SECONDS", 0.0)


@pytest.fixture
async def agent(world: World, tmp_path: Path) -> Agent:
    for stream in (SCALE, JOB, HB):
        await world.client.jetstream().purge_stream(stream.name)
    return Agent(world, await world.browser(), await provision_agent_key(world, tmp_path))


async def test_another_agent_cannot_have_a_heartbeat_dropped(agent: Agent, no_rate_limit: None) -> None:
    rival = ClusterRef(tenant="rival", cluster="main")
    coming = int(time.time() * 1000)
    for number in range(coming, coming + 5000):
        headers = {MESSAGE_ID: f"{REF.key}:heartbeat:{number}"}
        await agent.world.client.publish(subjects.heartbeat(rival), b"{}", headers=headers)
    await agent.world.client.flush()

    await agent.post()

    assert await agent.heartbeat() is not None


async def test_only_the_clusters_own_agent_key_is_accepted(agent: Agent, tmp_path: Path, no_rate_limit: None) -> None:
    stranger = await provision_agent_key(agent.world, tmp_path, "rival", "secret")
    person = await agent.world.login("ada@acme.example")
    async with person.post("/v1/users/me/tokens", json={"name": "ci"}) as answer:
        token = (await answer.json())["token"]

    for key in (None, "", "nonsense", new_key(), agent.key[:-1], f"{agent.key}x", agent.key.upper(), token):
        assert await agent.status(key) == 401, key
    async with person.post(PATH, json=DOCUMENTED) as answer:
        assert answer.status == 401, "a person is no agent"
    assert await agent.status(stranger) == 403, "another cluster's key"
    assert await agent.status(agent.key, cluster_id="secret") == 403
    assert await agent.heartbeat() is None

    assert await agent.status(agent.key) == 200
    async with agent.http.get("/v1/users/me", headers={KEY_HEADER: agent.key}) as answer:
        assert answer.status == 401, "an agent is no person"


async def rotated(boss: aiohttp.ClientSession, overlap: int) -> str:
    async with boss.post("/v1/clusters/main/agent-keys", json={"overlap_seconds": overlap}) as answer:
        assert answer.status == 201, await answer.text()
        return str((await answer.json())["agent_key"])


async def refused(agent: Agent) -> None:
    """Waits until the agent's key is no longer accepted."""

    async def is_refused() -> bool:
        return await agent.status(agent.key) == 401

    await until(is_refused, seconds=15, what="the agent's key to be refused")


async def test_a_new_agent_key_overlaps_with_the_one_before(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, no_rate_limit: None
) -> None:
    monkeypatch.setattr("clusterra_gateway.identity.access.credentials.CACHE_SECONDS", 0.0)
    boss = await agent.world.login("boss@acme.example")

    second = await rotated(boss, 3600)
    assert [await agent.status(key) for key in (agent.key, second)] == [200, 200]

    third = await rotated(boss, 0)
    assert [await agent.status(key) for key in (agent.key, second, third)] == [401, 401, 200]

    ada = await agent.world.login("ada@acme.example")
    async with ada.post("/v1/clusters/main/agent-keys", json={}) as answer:
        assert answer.status == 403


async def test_a_rotation_whose_answer_is_lost_locks_no_agent_out(agent: Agent, no_rate_limit: None) -> None:
    boss = await agent.world.login("boss@acme.example")
    await rotated(boss, 3600)

    current = await rotated(boss, 60)

    assert [await agent.status(key) for key in (agent.key, current)] == [200, 200]


async def test_a_bounded_number_of_agent_keys_works(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, no_rate_limit: None
) -> None:
    monkeypatch.setattr("clusterra_gateway.identity.access.credentials.CACHE_SECONDS", 0.0)
    boss = await agent.world.login("boss@acme.example")
    keys = [agent.key, *[await rotated(boss, seconds) for seconds in (1800, 3600, 7200)]]
    first_end = datetime.now(UTC) + timedelta(seconds=1800)

    async with boss.post("/v1/clusters/main/agent-keys", json={"overlap_seconds": 60}) as answer:
        assert answer.status == 409
        hint = (await answer.json())["hint"]

    told = re.search(r"until (\S+Z),", hint)
    assert told is not None, hint
    assert abs(datetime.fromisoformat(told[1]) - first_end) < timedelta(minutes=1)
    assert [await agent.status(key) for key in keys] == [200] * MAX_KEYS
    last = await rotated(boss, 0)
    assert [await agent.status(key) for key in (*keys, last)] == [401] * MAX_KEYS + [200]


async def test_a_revoked_agent_key_stops_before_its_verification_ends(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, no_rate_limit: None
) -> None:
    monkeypatch.setattr("clusterra_gateway.identity.access.credentials.CACHE_SECONDS", 3600.0)
    boss = await agent.world.login("boss@acme.example")
    assert await agent.status(agent.key) == 200

    await rotated(boss, 0)

    await refused(agent)


async def test_an_agent_key_stops_at_its_end(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, no_rate_limit: None
) -> None:
    monkeypatch.setattr("clusterra_gateway.identity.access.credentials.CACHE_SECONDS", 3600.0)
    boss = await agent.world.login("boss@acme.example")
    await rotated(boss, 4)
    assert await agent.status(agent.key) == 200

    await refused(agent)


async def test_the_key_of_a_deleted_cluster_stops_before_its_verification_ends(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, no_rate_limit: None
) -> None:
    monkeypatch.setattr("clusterra_gateway.identity.access.credentials.CACHE_SECONDS", 3600.0)
    assert await agent.status(agent.key) == 200

    await delete_binding(agent.world.client, REF)
    async with Outbox(agent.world.store, partial(bus.store, agent.world.client)) as outbox:
        await put_agent_key(Directory(agent.world.store, outbox), AgentKeyOwner(tenant="acme", cluster="main"), None)

    await refused(agent)


async def test_a_documented_heartbeat_is_published_on_the_bus(agent: Agent) -> None:
    reply = await agent.post()

    assert reply["ack"] is True

    beat = await agent.heartbeat()
    assert beat is not None
    assert (beat.agent_version, beat.substrate, beat.workers, beat.nodes) == ("5.0.0", "kubernetes", None, None)
    assert [(claim.name, claim.node_name, claim.lifecycle) for claim in beat.node_claims or ()] == [
        ("c1", "n1", "spot")
    ]
    assert [price.usd_per_hour for price in beat.prices or ()] == [0.03]

    browser = await agent.world.login("ada@acme.example")

    async def connected() -> bool:
        async with browser.get("/v1/clusters") as answer:
            return bool((await answer.json())["clusters"][0]["connection_state"] == "connected")

    await until(connected, seconds=30, what="the edge to be connected")


async def test_our_own_heartbeat_is_published_unchanged_and_answered_with_the_desired_state(
    agent: Agent, no_rate_limit: None
) -> None:
    worker = Worker(name="compute-xs-aaaaa", shape="compute-xs", phase="running", started_at=now())
    ours = Heartbeat(generation=7, sent_at=now(), agent_version="0.1.0", substrate="process", workers=(worker,))
    body = {"cluster_id": "main", "agent_version": "0.1.0", "heartbeat": ours.model_dump(mode="json")}

    reply = await agent.post(body)

    assert await agent.heartbeat() == ours
    assert (reply["desired"], reply["scaling_commands"]) == (None, None)

    state = await publish_desired_state(agent.world, 3)
    reply = await agent.post(body)

    assert DesiredState.model_validate(reply["desired"]) == state
    assert reply["protected_nodes"] == ["compute-xs-aaaaa"], "no snapshot of the queue could be read"


async def test_without_a_desired_state_an_agent_keeps_what_it_has(agent: Agent, no_rate_limit: None) -> None:
    reply = await agent.post(last_applied_version=77)

    assert replicas(reply) == {"compute-xs": 2}
    assert reply["scaling_commands_version"] == 77

    await publish_desired_state(agent.world, None)
    assert replicas(await agent.post()) == {"compute-xs": 2}


async def test_the_same_reply_is_sent_until_the_agent_has_applied_it(agent: Agent, no_rate_limit: None) -> None:
    state = await publish_desired_state(agent.world, 5, fence=4, generation=9)

    lost, again = await agent.post(), await agent.post()

    assert again == lost
    assert (replicas(again), again["scaling_commands_version"]) == ({"compute-xs": 5}, version_of(state))


async def test_the_heartbeat_has_the_state_that_the_agent_has_applied(agent: Agent, no_rate_limit: None) -> None:
    state = await publish_desired_state(agent.world, 5, fence=4, generation=9)
    sent = await agent.post()

    acknowledged = await agent.post(last_applied_version=version_of(state))
    beat = await agent.heartbeat()

    assert acknowledged["scaling_commands"] == sent["scaling_commands"]
    assert beat is not None
    assert beat.applied is not None
    assert (beat.applied.fence, beat.applied.generation) == state.order


async def test_a_state_older_than_the_one_already_applied_is_no_opinion(agent: Agent, no_rate_limit: None) -> None:
    state = await publish_desired_state(agent.world, 5, fence=4, generation=9)
    await agent.post()
    await publish_desired_state(agent.world, 1, "n1", "n2", fence=3, generation=99)

    old = await agent.post(last_applied_version=version_of(state))

    assert replicas(old) == {"compute-xs": 2}
    assert old["scaling_commands_version"] == version_of(state)


async def test_a_state_newer_than_the_one_already_applied_is_sent(agent: Agent, no_rate_limit: None) -> None:
    state = await publish_desired_state(agent.world, 5, fence=4, generation=9)
    await agent.post()
    newer = await publish_desired_state(agent.world, 6, fence=5, generation=10)

    reply = await agent.post(last_applied_version=version_of(state))

    assert version_of(newer) > version_of(state)
    assert replicas(reply) == {"compute-xs": 6}


async def test_a_restarted_gateway_gives_the_same_reply(agent: Agent, settings: Settings, no_rate_limit: None) -> None:
    await publish_desired_state(agent.world, 5)
    before = await agent.post()

    service = _Restarted(settings)
    port = free_port()
    other = settings.model_copy(update={"http_port": port})

    async with gateway_on(agent.world.store, service, other), aiohttp.ClientSession(f"http://127.0.0.1:{port}") as http:
        assert await Agent(agent.world, http, agent.key).post() == before
        await service.stop()


class _Restarted(Service):
    def __init__(self, settings: Settings) -> None:
        super().__init__("gateway", settings)

    async def stop(self) -> None:
        await self._cancel_background()


async def test_a_node_with_a_running_job_is_protected_when_none_is_desired(agent: Agent, no_rate_limit: None) -> None:
    await publish_desired_state(agent.world, 0, "n1", "n2")

    unknown = await agent.post()
    assert (replicas(unknown), unknown["protected_nodes"]) == ({"compute-xs": 2}, ["n1", "n2"])

    await publish_snapshot(agent.world, "n1")
    reply = await agent.post()
    assert (replicas(reply), reply["protected_nodes"]) == ({"compute-xs": 1}, ["n1"])

    await publish_snapshot(agent.world)
    reply = await agent.post()
    assert (replicas(reply), reply["protected_nodes"]) == ({"compute-xs": 0}, [])


async def test_the_agent_of_a_large_cluster_is_told_to_shrink(agent: Agent, no_rate_limit: None) -> None:
    """The snapshot of a large queue says which nodes are busy."""
    await publish_desired_state(agent.world, 0, "n1", "n2")
    jobs = tuple(
        RunningJob(job_id=str(number), uid=20001, user="ada", nodes=("n1",), cpus=1, started_at=now())
        for number in range(1, 6001)
    )
    snapshot = QueueSnapshot(generation=1, taken_at=now(), pending=(), running=jobs, nodes=())
    await bus.store(agent.world.client, subjects.job_pending(REF), *encode_large(snapshot))

    async def told() -> bool:
        reply = await agent.post()
        return (replicas(reply), reply["protected_nodes"]) == ({"compute-xs": 1}, ["n1"])

    await until(told, seconds=30, what="the agent to be told")


SLURM_KEY = b"a key of the tests that has more than 32 bytes, as Slurm wants it\n"


@pytest.fixture
async def keyed(agent: Agent, tmp_path: Path, no_rate_limit: None) -> Agent:
    """An agent whose cluster has a Slurm key in a file."""
    (tmp_path / "slurm.key").write_bytes(SLURM_KEY)
    agent.key = await provision_agent_key(agent.world, tmp_path, slurm_key=f"file:{tmp_path / 'slurm.key'}")
    return agent


@pytest.mark.parametrize("known", [{}, {"slurm_key_hash": "0" * 64}], ids=["no key", "another key"])
async def test_the_slurm_key_is_sent_to_agents_without_it(keyed: Agent, known: dict[str, Any]) -> None:
    reply = await keyed.post(**known)

    assert b64decode(reply["slurm_key"]) == SLURM_KEY


@pytest.mark.parametrize("written", [str.lower, str.upper])
async def test_the_slurm_key_is_not_sent_to_agents_with_it(keyed: Agent, written: Callable[[str], str]) -> None:
    reply = await keyed.post(slurm_key_hash=written(sha256(SLURM_KEY).hexdigest()))

    assert reply["slurm_key"] is None


async def test_the_slurm_key_is_not_sent_to_agents_of_our_own(keyed: Agent) -> None:
    ours = Heartbeat(generation=7, sent_at=now(), agent_version="0.1.0", substrate="process", workers=())
    body = {"cluster_id": "main", "agent_version": "0.1.0", "heartbeat": ours.model_dump(mode="json")}

    reply = await keyed.post(body)

    assert reply["slurm_key"] is None


async def test_an_agent_keeps_its_slurm_key_while_the_gateway_cannot_read_it(keyed: Agent, tmp_path: Path) -> None:
    await keyed.post()
    (tmp_path / "slurm.key").unlink()

    reply = await keyed.post()

    assert reply["slurm_key"] is None


async def test_neither_the_slurm_key_nor_an_agents_key_is_logged(
    keyed: Agent, capfd: pytest.CaptureFixture[str]
) -> None:
    reply = await keyed.post()
    await keyed.status(keyed.key[:-1])
    await keyed.status(keyed.key, capacity_pods=keyed.key)

    output = "".join(capfd.readouterr())
    assert "slurm_key_sent" in output
    for secret in (keyed.key, keyed.key[:-1], reply["slurm_key"]):
        assert secret not in output


async def test_a_second_heartbeat_within_a_second_is_rejected(agent: Agent, tmp_path: Path) -> None:
    rival = await provision_agent_key(agent.world, tmp_path, "rival", "secret")

    assert await agent.status(agent.key) == 200
    async with agent.http.post(PATH, json=DOCUMENTED, headers={KEY_HEADER: agent.key}) as answer:
        assert answer.status == 429
        assert (await answer.json())["type"] == "/v1/problems/too-many-requests"
        assert answer.headers["Retry-After"] == "1"

    assert await agent.status(rival, cluster_id="secret") == 200, "each cluster has its own limit"

    async def taken_again() -> bool:
        return await agent.status(agent.key) == 200

    await until(taken_again, seconds=30, what="the next heartbeat to be accepted", every=0.1)


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"cluster_id":"main","agent_version":"5.0.0"}', "application/json", 400),
        (b"{}", "text/plain", 415),
        (b" " * 3_400_000, "application/json", 413),
        (b" " * (5 * 1024 * 1024), "application/json", 413),
    ],
)
async def test_an_invalid_heartbeat_is_rejected(agent: Agent, body: bytes, content_type: str, status: int) -> None:
    headers = {KEY_HEADER: agent.key, "Content-Type": content_type}

    async with agent.http.post(PATH, data=BytesIO(body), headers=headers) as answer:
        assert answer.status == status, await answer.text()

    assert await agent.heartbeat() is None


async def test_an_invalid_desired_state_is_no_opinion(agent: Agent) -> None:
    await bus.store(agent.world.client, subjects.scale_desired(REF), b"{", {"Nats-Msg-Id": uuid.uuid4().hex})

    assert replicas(await agent.post()) == {"compute-xs": 2}


@pytest.fixture
async def world_with_own_nats(
    settings: Settings, issuer: IssuerStandIn, tmp_path: Path
) -> AsyncIterator[tuple[World, Any]]:
    async with (
        declared_nats(tmp_path / "nats") as server,
        running(settings.model_copy(update={"nats_url": server.url}), issuer) as world,
    ):
        yield world, server


async def test_without_nats_a_heartbeat_is_answered_with_503(
    world_with_own_nats: tuple[World, Any], tmp_path: Path, no_rate_limit: None
) -> None:
    world, server = world_with_own_nats
    agent = Agent(world, await world.browser(), await provision_agent_key(world, tmp_path))
    await publish_desired_state(world, 3)
    assert replicas(await agent.post()) == {"compute-xs": 3}

    await server.kill()
    async with agent.http.post(PATH, json=DOCUMENTED, headers={KEY_HEADER: agent.key}) as answer:
        assert answer.status == 503
        assert "Retry-After" in answer.headers

    await server.restart()

    async def answered() -> bool:
        return await agent.status(agent.key) == 200

    await until(answered, seconds=30, what="the gateway to be back on NATS", every=0.1)
    assert replicas(await agent.post()) == {"compute-xs": 3}


async def test_odd_values_are_accepted_or_errors_of_the_agent(agent: Agent, no_rate_limit: None) -> None:
    long = "x" * 180
    times = ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-14:00")
    (claim,), (price,) = DOCUMENTED["nodeclaims"], DOCUMENTED["prices"]
    values = (long, "7" * 180, "é" * 180, "", ">", "a.*", 10**30, -1, *times)
    changes: list[dict[str, Any]] = [
        *({field: value} for field in DOCUMENTED for value in values),
        *({"nodeclaims": [claim | {field: value}]} for field in claim for value in values),
        *({"prices": [price | {field: value}]} for field in price for value in values),
        *({"capacity_pods": {str(value): {"count": 2}}} for value in values),
        *({"k8s_nodes": [value]} for value in values),
    ]

    for changed in changes:
        assert await agent.status(agent.key, **changed) in (200, 400, 403), changed
    assert await agent.status(agent.key, nodeclaims=[claim | {"billable_from": times[0]}]) == 400
