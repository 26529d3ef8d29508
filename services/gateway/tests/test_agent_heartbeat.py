"""Agents that speak HTTP: who is let in, what reaches the bus, and what they are told back."""

import secrets
import uuid
from base64 import b64decode
from collections.abc import AsyncIterator
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from clusterra_contracts.agent_http import KEY_HEADER, PATH, new_key
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import HB, JOB, SCALE
from clusterra_contracts.heartbeat import Heartbeat, Worker
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import QueueSnapshot, RunningJob
from clusterra_contracts.scale import DesiredState, ShapeTarget
from clusterra_contracts.shapes import WorkerSpec
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.agents.central_state import version_of
from clusterra_gateway.app import gateway_on
from clusterra_gateway.provision import Given, Provisioning
from clusterra_gateway.settings import Settings
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import until
from clusterra_lab.parts.declared_nats import declared_nats
from clusterra_runtime.nats import bus
from clusterra_runtime.service import Service
from clusterra_runtime.store.outbox import Outbox
from gateway_world import CATALOGUE, World, provisioned, running
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
    """An agent of acme's cluster at one gateway."""

    world: World
    http: aiohttp.ClientSession
    key: str

    async def post(self, body: dict[str, Any] | None = None, **changed: Any) -> dict[str, Any]:
        """A heartbeat that must be answered."""
        async with self.http.post(PATH, json=(body or DOCUMENTED) | changed, headers={KEY_HEADER: self.key}) as answer:
            assert answer.status == 200, await answer.text()
            told: dict[str, Any] = await answer.json()
            return told

    async def status(self, key: str | None, **changed: Any) -> int:
        headers = {} if key is None else {KEY_HEADER: key}
        async with self.http.post(PATH, json=DOCUMENTED | changed, headers=headers) as answer:
            if answer.status != 200:
                assert answer.content_type == "application/problem+json"
            return answer.status

    async def heartbeat(self) -> Heartbeat | None:
        """The last one on the bus."""
        found = await bus.last(self.world.client, HB.name, subjects.heartbeat(REF), Heartbeat)
        return None if found is None else found[0]


def counts(told: dict[str, Any]) -> dict[str, int]:
    return {command["name"]: command["replicas"] for command in told["scaling_commands"]}


async def provision(world: World, tenant: str, cluster: str, **fields: Any) -> list[str]:
    async with Outbox(world.store, lambda *_message: bus.store(world.client, *_message)) as outbox:
        provisioning = Provisioning(Directory(world.store, outbox), CATALOGUE)
        given = provisioned(tenant, cluster)
        given["clusters"] = [given["clusters"][0] | fields]  # type: ignore[index]
        await provisioning.apply(Given.model_validate({"tenants": [given]}))
        return provisioning.changes


async def keyed(world: World, folder: Path, tenant: str = "acme", cluster: str = "main", **fields: Any) -> str:
    key = new_key()
    (folder / f"{tenant}.key").write_text(f"{key}\n")
    await provision(world, tenant, cluster, agent_key=f"file:{folder / tenant}.key", **fields)
    return key


async def desire(
    world: World, replicas: int | None, *victims: str, fence: int = 1, generation: int = 1
) -> DesiredState:
    target = ShapeTarget(shape="compute-xs", worker=SPEC, replicas=replicas or 0, victims=victims)
    state = DesiredState(
        generation=generation,
        fence=fence,
        snapshot_generation=1,
        decided_at=now(),
        targets=None if replicas is None else (target,),
    )
    await bus.publish_durable(world.client, subjects.scale_desired(REF), state, message_id=uuid.uuid4().hex)
    return state


async def queue(world: World, *busy: str) -> None:
    jobs = tuple(
        RunningJob(job_id=str(number), uid=20001, user="ada", nodes=(node,), cpus=1, started_at=now())
        for number, node in enumerate(busy, 1)
    )
    snapshot = QueueSnapshot(generation=1, taken_at=now(), pending=(), running=jobs, nodes=())
    await bus.publish_durable(world.client, subjects.job_pending(REF), snapshot, message_id=uuid.uuid4().hex)


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterra_gateway.agents.exchange.EVERY_SECONDS", 0.0)


@pytest.fixture
async def agent(world: World, tmp_path: Path) -> Agent:
    for stream in (SCALE, JOB, HB):
        await world.client.jetstream().purge_stream(stream.name)
    return Agent(world, await world.browser(), await keyed(world, tmp_path))


async def test_only_the_cluster_s_own_key_opens(agent: Agent, tmp_path: Path, unhurried: None) -> None:
    stranger = await keyed(agent.world, tmp_path, "rival", "secret")
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


async def test_a_documented_heartbeat_is_told_on_the_bus(agent: Agent) -> None:
    told = await agent.post()
    assert told["ack"] is True
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


async def test_our_own_heartbeat_goes_as_it_is_and_brings_the_desired_state(agent: Agent, unhurried: None) -> None:
    worker = Worker(name="compute-xs-aaaaa", shape="compute-xs", phase="running", started_at=now())
    ours = Heartbeat(generation=7, sent_at=now(), agent_version="0.1.0", substrate="process", workers=(worker,))
    body = {"cluster_id": "main", "agent_version": "0.1.0", "heartbeat": ours.model_dump(mode="json")}
    told = await agent.post(body)
    assert await agent.heartbeat() == ours
    assert (told["desired"], told["scaling_commands"]) == (None, None)
    state = await desire(agent.world, 3)
    told = await agent.post(body)
    assert DesiredState.model_validate(told["desired"]) == state
    assert told["protected_nodes"] == ["compute-xs-aaaaa"], "no queue could be read"


async def test_without_a_desired_state_an_agent_keeps_what_it_has(agent: Agent, unhurried: None) -> None:
    told = await agent.post(last_applied_version=77)
    assert counts(told) == {"compute-xs": 2}
    assert told["scaling_commands_version"] == 77
    await desire(agent.world, None)
    assert counts(await agent.post()) == {"compute-xs": 2}


async def test_a_lost_reply_a_repetition_and_an_old_version(agent: Agent, unhurried: None) -> None:
    state = await desire(agent.world, 5, fence=4, generation=9)
    lost = await agent.post()
    again = await agent.post()
    assert again == lost
    assert (counts(again), again["scaling_commands_version"]) == ({"compute-xs": 5}, version_of(state))
    acknowledged = await agent.post(last_applied_version=version_of(state))
    assert acknowledged["scaling_commands"] == lost["scaling_commands"]
    beat = await agent.heartbeat()
    assert beat is not None
    assert beat.applied is not None
    assert (beat.applied.fence, beat.applied.generation) == state.order

    await desire(agent.world, 1, "n1", "n2", fence=3, generation=99)
    old = await agent.post(last_applied_version=version_of(state))
    assert counts(old) == {"compute-xs": 2}, "what is older than what it has carried out is no opinion"
    assert old["scaling_commands_version"] == version_of(state)

    newer = await desire(agent.world, 6, fence=5, generation=10)
    assert version_of(newer) > version_of(state)
    assert counts(await agent.post(last_applied_version=version_of(state))) == {"compute-xs": 6}


async def test_a_central_that_was_restarted_says_the_same(agent: Agent, settings: Settings, unhurried: None) -> None:
    await desire(agent.world, 5)
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


async def test_a_node_with_a_running_job_is_protected_from_a_wish_for_none(agent: Agent, unhurried: None) -> None:
    await desire(agent.world, 0, "n1", "n2")
    unknown = await agent.post()
    assert (counts(unknown), unknown["protected_nodes"]) == ({"compute-xs": 2}, ["n1", "n2"])
    await queue(agent.world, "n1")
    told = await agent.post()
    assert (counts(told), told["protected_nodes"]) == ({"compute-xs": 1}, ["n1"])
    await queue(agent.world)
    told = await agent.post()
    assert (counts(told), told["protected_nodes"]) == ({"compute-xs": 0}, [])


async def test_the_slurm_key_goes_to_who_has_another_one_and_into_no_log(
    agent: Agent, tmp_path: Path, unhurried: None, capfd: pytest.CaptureFixture[str]
) -> None:
    slurm_key = secrets.token_bytes(64) + b"\n"
    file = tmp_path / "slurm.key"
    file.write_bytes(slurm_key)
    agent.key = await keyed(agent.world, tmp_path, slurm_key=f"file:{file}")
    told = await agent.post()
    assert b64decode(told["slurm_key"]) == slurm_key, "an agent that has none says nothing of it"
    assert b64decode((await agent.post(slurm_key_hash="0" * 64))["slurm_key"]) == slurm_key
    for same in (sha256(slurm_key).hexdigest(), sha256(slurm_key).hexdigest().upper()):
        assert (await agent.post(slurm_key_hash=same))["slurm_key"] is None
    ours = Heartbeat(generation=7, sent_at=now(), agent_version="0.1.0", substrate="process", workers=())
    body = {"cluster_id": "main", "agent_version": "0.1.0", "heartbeat": ours.model_dump(mode="json")}
    assert (await agent.post(body))["slurm_key"] is None
    file.unlink()
    assert (await agent.post())["slurm_key"] is None, "an agent keeps its key while central cannot read its own"
    await agent.status(agent.key[:-1])
    await agent.status(agent.key, capacity_pods=agent.key)
    output = "".join(capfd.readouterr())
    assert "slurm_key_sent" in output
    for secret in (agent.key, agent.key[:-1], told["slurm_key"]):
        assert secret not in output


async def test_one_a_second_is_enough(agent: Agent, tmp_path: Path) -> None:
    rival = await keyed(agent.world, tmp_path, "rival", "secret")
    assert await agent.status(agent.key) == 200
    async with agent.http.post(PATH, json=DOCUMENTED, headers={KEY_HEADER: agent.key}) as answer:
        assert answer.status == 429
        assert (await answer.json())["type"] == "urn:clusterra:problem:too-many-requests"
        assert answer.headers["Retry-After"] == "1"
    assert await agent.status(rival, cluster_id="secret") == 200, "each cluster for itself"

    async def taken_again() -> bool:
        return await agent.status(agent.key) == 200

    await until(taken_again, seconds=30, what="the next to be taken", every=0.1)


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"cluster_id":"main","agent_version":"5.0.0"}', "application/json", 400),
        (b"{}", "text/plain", 415),
        (b" " * (5 * 1024 * 1024), "application/json", 413),
    ],
)
async def test_what_is_no_heartbeat_is_refused(agent: Agent, body: bytes, content_type: str, status: int) -> None:
    headers = {KEY_HEADER: agent.key, "Content-Type": content_type}
    async with agent.http.post(PATH, data=BytesIO(body), headers=headers) as answer:
        assert answer.status == status, await answer.text()
    assert await agent.heartbeat() is None


async def test_a_garbled_desired_state_is_no_opinion(agent: Agent) -> None:
    await bus.store(agent.world.client, subjects.scale_desired(REF), b"{", {"Nats-Msg-Id": uuid.uuid4().hex})
    assert counts(await agent.post()) == {"compute-xs": 2}


@pytest.fixture
async def cut_off(settings: Settings, issuer: IssuerStandIn, tmp_path: Path) -> AsyncIterator[tuple[World, Any]]:
    async with (
        declared_nats(tmp_path / "nats") as server,
        running(settings.model_copy(update={"nats_url": server.url}), issuer) as world,
    ):
        yield world, server


async def test_without_nats_an_agent_is_told_to_come_back(
    cut_off: tuple[World, Any], tmp_path: Path, unhurried: None
) -> None:
    world, server = cut_off
    agent = Agent(world, await world.browser(), await keyed(world, tmp_path))
    await desire(world, 3)
    assert counts(await agent.post()) == {"compute-xs": 3}
    await server.kill()
    async with agent.http.post(PATH, json=DOCUMENTED, headers={KEY_HEADER: agent.key}) as answer:
        assert answer.status == 503
        assert "Retry-After" in answer.headers
    await server.restart()

    async def answered() -> bool:
        return await agent.status(agent.key) == 200

    await until(answered, seconds=30, what="the gateway to be back on NATS", every=0.1)
    assert counts(await agent.post()) == {"compute-xs": 3}
