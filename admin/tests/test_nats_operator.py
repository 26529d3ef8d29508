"""The logins of `clusterra-admin secrets` at a real nats-server in operator mode."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats.errors
import pytest
from admin_command import admin
from clusterra_admin.secrets import declared, nats_jwt
from clusterra_admin.secrets.nkey import Key
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.permissions import CENTRAL_SERVICES, inbox_prefix
from clusterra_contracts.identity import ClusterRef
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer, OperatorMode, nats_server
from clusterra_runtime.nats import bus, topology
from clusterra_runtime.settings import ServiceSettings
from nats.aio.client import Client

C1 = ClusterRef(tenant="acme", cluster="c1")
OTHERS = (ClusterRef(tenant="acme", cluster="c2"), ClusterRef(tenant="rival", cluster="c1"))
REFUSED = nats.errors.Error


class Installation:
    """A directory of secrets, and a server that uses it."""

    def __init__(self, secrets: Path, server: NatsServer) -> None:
        self.secrets = secrets
        self.server = server

    @asynccontextmanager
    async def connected(
        self, credentials: Path | None, errors: list[str] | None = None, inbox: str = "_INBOX_test"
    ) -> AsyncIterator[Client]:
        async def record(error: Exception) -> None:
            if errors is not None:
                errors.append(str(error).lower())

        client = Client()
        options: dict[str, Any] = {
            "error_cb": record,
            "inbox_prefix": inbox,
            "allow_reconnect": False,
            "connect_timeout": 5,
        }
        if credentials is not None:
            options["user_credentials"] = str(credentials)
        try:
            await client.connect(self.server.url, **options)
        except nats.errors.Error:
            if client._transport is not None:  # nats-py leaves the socket of a rejected connection open
                client._transport.close()  # type: ignore[no-untyped-call]
            raise
        try:
            yield client
        finally:
            await client.close()

    def central(self, name: str) -> Path:
        return self.secrets / "nats" / f"{name}.creds"

    def agent(self, ref: ClusterRef) -> Path:
        return self.secrets / declared.agent_credentials(ref)


@pytest.fixture(scope="module")
async def installation(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    directory = tmp_path_factory.mktemp("operator")
    secrets = directory / "secrets"
    for ref in (C1, *OTHERS):
        await admin("secrets", "init", str(secrets), "--tenant", ref.tenant, "--cluster", ref.cluster)
    operator = OperatorMode(secrets / "nats/resolver.conf", {"admin": secrets / declared.ADMIN_CREDENTIALS})
    async with nats_server(directory / "nats", operator=operator) as server:
        client = await bus.connect(server.settings("admin"), "test")
        await topology.apply(client)
        await bus.close(client)
        yield Installation(secrets, server)


async def flushed(client: Client) -> None:
    await client.flush()
    await client.flush()  # with nats-py the PING of the first overtakes buffered commands


async def denied(installation: Installation, credentials: Path, *, publish: str = "", subscribe: str = "") -> bool:
    errors: list[str] = []
    async with installation.connected(credentials, errors) as client:
        if publish:
            await client.publish(publish, b"x")
        else:
            await client.subscribe(subscribe)
        await flushed(client)
    return any("permissions violation" in error for error in errors)


async def test_without_a_login_nobody_connects(installation: Installation) -> None:
    with pytest.raises(REFUSED):
        async with installation.connected(None):
            pass


@pytest.mark.parametrize("service", CENTRAL_SERVICES)
async def test_a_central_service_connects_reads_streams_and_changes_none(
    service: str, installation: Installation
) -> None:
    errors: list[str] = []
    async with installation.connected(installation.central(service), errors, f"_INBOX_{service}") as client:
        info = await client.jetstream().stream_info("EVENT")

        assert info.config.subjects == ["event.>"]

        await flushed(client)
        assert not errors

        for forbidden in ("STREAM.DELETE.EVENT", "STREAM.UPDATE.EVENT", "STREAM.PURGE.EVENT", "STREAM.CREATE.MINE"):
            await client.publish(f"$JS.API.{forbidden}", b"{}")
            await until(lambda: len(errors) == 1, seconds=10, what=f"the denial of {forbidden}")
            errors.clear()


@pytest.mark.parametrize(
    ("service", "subject"),
    [
        ("proxy", subjects.scale_desired(C1)),
        ("scaler", subjects.slurm(C1, "submit")),
        ("events", subjects.job_pending(C1)),
        ("gateway", subjects.scale_desired(C1)),
        ("events", "$KV.registry.acme.c1"),
        ("proxy", "$KV.versions.gateway.x"),
    ],
)
async def test_a_central_service_sends_nothing_that_is_another_ones(
    service: str, subject: str, installation: Installation
) -> None:
    assert await denied(installation, installation.central(service), publish=subject)


async def test_an_agent_reads_its_desired_state_and_sends_its_heartbeat(installation: Installation) -> None:
    errors: list[str] = []
    async with (
        installation.connected(installation.agent(C1), errors, inbox_prefix(C1)) as agent,
        installation.connected(installation.central("admin")) as central,
    ):
        heartbeats = await central.subscribe(subjects.heartbeat(C1))
        requests = await agent.subscribe(subjects.edge(C1, "*"))
        await flushed(central)
        await flushed(agent)
        await central.jetstream().publish(subjects.scale_desired(C1), b"desired")

        stored = await agent.request(f"$JS.API.DIRECT.GET.SCALE.{subjects.scale_desired(C1)}", timeout=5)
        await agent.publish(subjects.heartbeat(C1), b"alive")

        assert stored.data == b"desired"
        assert (await heartbeats.next_msg(timeout=5)).data == b"alive"

        asking = asyncio.create_task(central.request(subjects.edge(C1, "log"), b"?", timeout=5))
        request = await requests.next_msg(timeout=5)
        await request.respond(b"answer")

        assert (await asking).data == b"answer"
    assert not errors


@pytest.mark.parametrize(
    "subject",
    [
        *(subjects.scale_desired(ref) for ref in OTHERS),
        "scale.desired.*.*",
        "scale.desired.>",
        ">",
        "_INBOX.>",
        "_INBOX_gateway.>",
        "_EDGE.rival.c1.>",
        "event.>",
        "$SYS.>",
    ],
)
async def test_an_agent_cannot_listen_to_others(subject: str, installation: Installation) -> None:
    assert await denied(installation, installation.agent(C1), subscribe=subject)


@pytest.mark.parametrize(
    "subject",
    [
        *(subjects.heartbeat(ref) for ref in OTHERS),
        *(subjects.scale_desired(ref) for ref in (C1, *OTHERS)),
        subjects.job_pending(C1),
        subjects.event(C1, "job.completed"),
        f"$JS.API.DIRECT.GET.SCALE.{subjects.scale_desired(OTHERS[1])}",
        "$JS.API.DIRECT.GET.SCALE",
        "$JS.API.STREAM.MSG.GET.SCALE",
        "$JS.API.STREAM.LIST",
        "$JS.API.STREAM.DELETE.SCALE",
        "$JS.API.CONSUMER.CREATE.SCALE",
        "$JS.API.CONSUMER.CREATE.SCALE.mine.scale.desired.>",
        "$KV.registry.acme.c1",
        "$SYS.REQ.SERVER.PING",
        "$SYS.REQ.CLAIMS.UPDATE",
    ],
)
async def test_an_agent_cannot_send_for_others(subject: str, installation: Installation) -> None:
    assert await denied(installation, installation.agent(C1), publish=subject)


def forged(installation: Installation, directory: Path, **nats_claims: object) -> Path:
    """Credentials that the holder of the edge's signing key could make without the command."""
    signing = Key((installation.secrets / declared.EDGE_SIGNING).read_text().strip())
    (account,) = (
        claims["sub"]
        for jwt in nats_jwt.jwts_in((installation.secrets / declared.RESOLVER).read_text())
        if (claims := nats_jwt.claims_of(jwt))["name"] == "control-plane"
    )
    user = Key.new("U")
    claims = nats_jwt.scoped_user_claims("forged", user.public, account, (), int(time.time()) + 60)
    claims["nats"] |= nats_claims
    file = directory / "forged.creds"
    file.write_text(nats_jwt.credentials(nats_jwt.signed(claims, signing), user))
    return file


@pytest.mark.parametrize("tags", [[], ["tenant:acme"], ["tenant:>", "cluster:c1"], ["tenant:acme.x", "cluster:c1"]])
async def test_a_login_without_both_ids_in_its_tags_reaches_nothing(
    tags: list[str], installation: Installation, tmp_path: Path
) -> None:
    file = forged(installation, tmp_path, tags=tags)

    for subject in (subjects.heartbeat(C1), subjects.heartbeat(OTHERS[1])):
        assert await denied(installation, file, publish=subject)
    assert await denied(installation, file, subscribe=subjects.scale_desired(OTHERS[1]))


async def test_the_signing_key_of_agents_cannot_give_other_rights(installation: Installation, tmp_path: Path) -> None:
    rights = {"pub": {"allow": [">"]}, "sub": {"allow": [">"]}}
    file = forged(installation, tmp_path, tags=["tenant:acme", "cluster:c1"], **rights)

    with pytest.raises(REFUSED):
        async with installation.connected(file):
            pass


async def test_credentials_changed_in_one_byte_are_refused(installation: Installation, tmp_path: Path) -> None:
    text = installation.agent(C1).read_text()
    jwt = nats_jwt.jwts_in(text)[0]
    claims = nats_jwt.claims_of(jwt)
    claims["nats"]["tags"] = ["tenant:rival", "cluster:c1"]
    head, _, signature = jwt.split(".")
    other = nats_jwt.signed(claims, Key.new("A")).split(".")[1]
    (tmp_path / "changed.creds").write_text(text.replace(jwt, f"{head}.{other}.{signature}"))

    with pytest.raises(REFUSED):
        async with installation.connected(tmp_path / "changed.creds"):
            pass


async def test_a_renewed_login_works_and_a_revoked_one_is_cut(tmp_path: Path) -> None:
    secrets, ids = tmp_path / "secrets", ("--tenant", C1.tenant, "--cluster", C1.cluster)
    await admin("secrets", "init", str(secrets), *ids)
    operator = OperatorMode(secrets / declared.RESOLVER, {"admin": secrets / declared.ADMIN_CREDENTIALS})
    async with nats_server(tmp_path / "nats", operator=operator) as server:
        installation = Installation(secrets, server)
        first = secrets / "first.creds"
        shutil.copy(installation.agent(C1), first)
        renewed = await admin("secrets", "agent", str(secrets), *ids, "--days", "7")

        assert "valid for 7 days" in renewed.out

        expiry = nats_jwt.claims_of(nats_jwt.jwts_in(installation.agent(C1).read_text())[0])["exp"]
        assert 6.9 * 86_400 < expiry - time.time() < 7.1 * 86_400

        stays = await bus.connect(server.settings("admin"), "stays")
        async with installation.connected(installation.agent(C1)) as agent, installation.connected(first):
            # A revocation counts in whole seconds, up to and including its own.
            await admin("secrets", "revoke", str(secrets), *ids)
            shutil.copy(secrets / declared.RESOLVER, tmp_path / "nats/config/resolver.conf")
            os.kill(_server_pid(tmp_path / "nats"), signal.SIGHUP)

            await until(lambda: agent.is_closed, seconds=20, what="the end of the revoked connection")

        assert stays.is_connected
        await bus.close(stays)
        assert not installation.agent(C1).exists()
        with pytest.raises(REFUSED):
            async with installation.connected(first):
                pass

        await admin("secrets", "agent", str(secrets), *ids)

        async with installation.connected(installation.agent(C1)) as again:
            assert again.is_connected


def _server_pid(directory: Path) -> int:
    config = str(directory / "config" / "nats-server.conf")
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and config in (process / "cmdline").read_text().split("\0"):
                return int(process.name)
        except OSError:
            continue
    raise AssertionError("the server does not run")


async def test_services_reconnect_when_their_credentials_are_replaced(installation: Installation) -> None:
    settings = ServiceSettings(nats_url=installation.server.url, nats_credentials_file=installation.central("scaler"))
    client = await bus.connect(settings, "scaler")
    await admin("secrets", "init", str(installation.secrets), "--replace", "nats/scaler.creds")

    await installation.server.kill()
    await installation.server.restart()

    await until(lambda: client.is_connected, seconds=30, what="a new connection with the new login")
    await bus.close(client)
