"""The gateway as a process, with DynamoDB, a standard OIDC issuer, and tenants from `provision`."""

import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import aiohttp
import psutil
import pytest
import quick_worker
import yaml
from cluster_stand_in import ClusterStandIn
from clusterra_contracts.bus.topology import REGISTRY
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.registry import ClusterBinding
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import Process, start, until
from clusterra_lab.parts.aws import Aws, aws_emulator
from clusterra_lab.parts.aws_rights import with_rights
from clusterra_lab.parts.declared_tables import declare_tables, table_policy
from clusterra_lab.parts.nats import NatsServer
from clusterra_lab.parts.oidc import Oidc, Person, oidc_provider
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.direct import last
from clusterra_runtime.settings import ServiceSettings
from gateway_world import CATALOGUE, provisioned

ADA = Person(subject="ada", email="ada@mill.example", name="Ada Lovelace")
REF = ClusterRef(tenant="mill", cluster="main")
STOP_DELAY_SECONDS = 3.0
NO_MORE: Mapping[str, str] = MappingProxyType({})
MAX_RESIDENT_BYTES = 150 * 1024 * 1024


@dataclass
class Installation:
    """The servers that a gateway needs, and its environment."""

    directory: Path
    environment: dict[str, str]
    aws: Aws
    """DynamoDB with all rights; `environment` leads to one with the gateway's rights only."""
    url: str
    health: str
    oidc: Oidc
    client: Client

    async def run(self, name: str, *arguments: str, settings: Mapping[str, str] = NO_MORE) -> Process:
        log = self.directory / f"{name}.log"
        return await start(name, [sys.executable, "-m", *arguments], log=log, env={**self.environment, **settings})

    async def worker(self) -> Process:
        """A process for the background work. It serves nothing but its health, at any free port."""
        arguments = [sys.executable, quick_worker.__file__, "work"]
        environment = self.environment | {"CLUSTERRA_HEALTH_PORT": "0"}
        return await start("worker", arguments, log=self.directory / "worker.log", env=environment)

    async def provision(self, *tenants: dict[str, object]) -> tuple[int, str]:
        file = self.directory / "tenants.yaml"
        file.write_text(yaml.safe_dump({"tenants": list(tenants)}))
        process = await self.run(
            "provision", "clusterra_admin", "provision", "apply", str(file), settings=self.aws.environment()
        )
        return await process.wait(), process.tail()

    async def gateway(self, *duty: str, settings: Mapping[str, str] = NO_MORE) -> Process:
        process = await self.run("gateway", "clusterra_gateway", *duty, settings=settings)

        async def ready() -> bool:
            try:
                async with aiohttp.ClientSession() as http, http.get(f"{self.health}/readyz") as answer:
                    return answer.status == 200
            except aiohttp.ClientConnectionError:
                return False

        await until(ready, seconds=90, what="the gateway", process=process)
        return process

    async def login(self, browser: aiohttp.ClientSession) -> None:
        async with browser.get("/v1/auth/login", allow_redirects=False) as answer:
            assert answer.status == 302, await answer.text()
            back = await self.oidc.log_in(answer.headers["Location"], ADA.email)
        async with browser.get(back, allow_redirects=False) as answer:
            assert answer.status == 303, await answer.text()


@pytest.fixture(scope="module")
async def installation(nats: NatsServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    directory = tmp_path_factory.mktemp("installation")
    port, health = free_port(), free_port()
    url = f"http://127.0.0.1:{port}"
    (directory / "session.key").write_bytes(b"a session key of the tests that has 32 bytes")
    (directory / "shapes.yaml").write_text(yaml.safe_dump(CATALOGUE.model_dump(mode="json")))
    async with AsyncExitStack() as opened:
        aws = await opened.enter_async_context(aws_emulator(directory / "aws"))
        oidc = await opened.enter_async_context(
            oidc_provider(directory / "oidc", redirect_uris=[f"{url}/v1/auth/callback"], people=[ADA])
        )
        client = await bus.connect(ServiceSettings(nats_url=nats.url), "test")
        opened.push_async_callback(bus.close, client)
        await declare_tables({**nats.environment(), **aws.environment()}, directory)
        policy = await table_policy("gateway", nats.environment(), directory)
        restricted = await opened.enter_async_context(with_rights(aws, policy))
        environment = {
            **nats.environment(),
            **restricted.environment(),
            **oidc.environment(),
            "CLUSTERRA_HTTP_PORT": str(port),
            "CLUSTERRA_PUBLIC_URL": url,
            "CLUSTERRA_HEALTH_PORT": str(health),
            "CLUSTERRA_SESSION_KEY_FILE": str(directory / "session.key"),
            "CLUSTERRA_CATALOGUE_FILE": str(directory / "shapes.yaml"),
        }
        yield Installation(directory, environment, aws, url, f"http://127.0.0.1:{health}", oidc, client)


@pytest.fixture(scope="module")
async def mill(installation: Installation) -> Installation:
    """The installation with a tenant."""
    code, output = await installation.provision(provisioned("mill", "main"))
    assert code == 0, output
    return installation


async def projected_binding(installation: Installation) -> ClusterBinding | None:
    found = await last(installation.client, f"KV_{REGISTRY.name}", f"$KV.{REGISTRY.name}.{REF.key}", ClusterBinding)
    return None if found is None else found[0]


async def test_clusters_are_provisioned_from_a_file(mill: Installation) -> None:
    binding = await projected_binding(mill)
    assert binding is not None
    assert binding.catalogue == CATALOGUE

    code, output = await mill.provision(provisioned("thief") | {"domains": ["mill.example"]})
    assert code == 1
    assert output.splitlines()[-2] == "error: domain mill.example belongs to tenant mill"


async def test_sessions_and_idempotency_keys_survive_a_kill(mill: Installation) -> None:
    stand_in = ClusterStandIn(REF)
    await stand_in.serve(mill.client)
    gateway = await mill.gateway()
    try:
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(mill.url, cookie_jar=jar) as browser:
            await mill.login(browser)

            async with browser.get("/v1/users/me") as answer:
                me = await answer.json()
            assert (me["name"], me["uid"], me["email"]) == ("ada", 20001, ADA.email)

            body = {"script": "#!/bin/sh\n", "job": {"environment": ["PATH=/bin"]}}
            for _ in range(2):
                key = {"Idempotency-Key": "the-same-key"}
                async with browser.post("/v1/clusters/main/jobs/submit", json=body, headers=key) as answer:
                    assert answer.status == 201, await answer.text()
                    assert (await answer.json())["job_id"] == "1"
            assert len(stand_in.submits) == 1
            assert psutil.Process(gateway.pid).memory_info().rss < MAX_RESIDENT_BYTES

            gateway.kill()
            await gateway.wait()
            gateway = await mill.gateway(settings={"CLUSTERRA_STOP_DELAY_SECONDS": str(STOP_DELAY_SECONDS)})
            async with browser.post("/v1/clusters/main/jobs/submit", json=body, headers=key) as answer:
                assert (await answer.json())["repeated"] is True  # session, key and answer survive the process

            async with browser.get("/v1/clusters/main/events/stream") as stream:
                gateway.signal(signal.SIGTERM)

                async def told_to_leave() -> bool:
                    async with browser.get("/v1/users/me") as answer:
                        return answer.status == 200 and answer.headers.get("Connection") == "close"

                # While the gateway still serves, no client keeps a connection that is about to be closed.
                await until(told_to_leave, seconds=STOP_DELAY_SECONDS, what="an answer that ends its connection")
                await stream.read()  # the gateway ends the stream itself and does not wait for clients to leave
            assert await gateway.wait() == 0
    finally:
        await gateway.stop()
        await stand_in.stop_serving()


async def test_the_gateway_does_not_start_without_a_session_key(installation: Installation) -> None:
    environment = {name: value for name, value in installation.environment.items() if "SESSION_KEY" not in name}

    process = await start(
        "keyless", [sys.executable, "-m", "clusterra_gateway"], log=installation.directory / "k.log", env=environment
    )

    assert await process.wait() == 1
    assert "CLUSTERRA_SESSION_KEY_FILE" in process.tail()


async def test_a_gateway_that_only_serves_leaves_unfinished_runs_to_the_worker(mill: Installation) -> None:
    stand_in = ClusterStandIn(REF)
    await stand_in.serve(mill.client)
    stand_in.lose_replies = 1
    gateway = await mill.gateway("serve")
    try:
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(mill.url, cookie_jar=jar) as browser:
            await mill.login(browser)
            steps = [{"step_id": "a", "script": "#!/bin/sh\n", "job": {"environment": ["PATH=/bin"]}}]
            async with browser.post("/v1/clusters/main/runs", json={"run_name": "nightly", "steps": steps}) as answer:
                run = await answer.json()
            assert (answer.status, run["state"]) == (201, "submitting")

            async def state() -> str:
                async with browser.get(f"/v1/clusters/main/runs/{run['run_id']}") as answer:
                    return str((await answer.json())["state"])

            async def is_active() -> bool:
                return await state() == "active"

            assert await state() == "submitting"
            worker = await mill.worker()
            try:
                await until(is_active, seconds=90, what="the worker to submit the job again", process=worker)
            finally:
                assert await worker.stop(30) == 0
        assert len(stand_in.jobs) == 1
    finally:
        await gateway.stop()
        await stand_in.stop_serving()


async def test_the_gateway_has_no_other_duties(installation: Installation) -> None:
    process = await installation.run("idle", "clusterra_gateway", "idle")

    assert await process.wait() == 2
    assert "serve" in process.tail()
