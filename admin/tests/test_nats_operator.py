"""The logins of `clusterra-admin secrets` at a real nats-server in operator mode."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import nats.errors
import pytest
from admin_command import admin
from clusterra_admin.secrets import nats_jwt
from clusterra_admin.secrets.nkey import Key
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.permissions import CENTRAL_SERVICES, inbox_prefix
from clusterra_contracts.identity import ClusterRef
from clusterra_lab.machine.process import until
from clusterra_runtime.nats import bus
from clusterra_runtime.settings import ServiceSettings
from operator_server import Installation, flushed, installed

pytestmark = pytest.mark.servers

C1 = ClusterRef(tenant="acme", cluster="c1")
OTHERS = (ClusterRef(tenant="acme", cluster="c2"), ClusterRef(tenant="rival", cluster="c1"))
REFUSED = nats.errors.Error


@pytest.fixture(scope="module")
async def installation(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    async with installed(tmp_path_factory.mktemp("operator"), (C1, *OTHERS)) as installation:
        yield installation


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

        # The gateway purges what a deleted cluster leaves in EVENT.
        purge = "STREAM.PURGE.KV_tokens" if service == "gateway" else "STREAM.PURGE.EVENT"
        for forbidden in ("STREAM.DELETE.EVENT", "STREAM.UPDATE.EVENT", purge, "STREAM.CREATE.MINE"):
            await client.publish(f"$JS.API.{forbidden}", b"{}")
            await until(lambda: len(errors) == 1, seconds=30, what=f"the denial of {forbidden}")
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


async def test_credentials_changed_in_one_byte_are_refused(installation: Installation, tmp_path: Path) -> None:
    text = installation.agent(C1).read_text()
    jwt = nats_jwt.jwts_in(text)[0]
    claims = nats_jwt.claims_of(jwt)
    claims["nats"]["pub"] = {"allow": [">"]}
    head, _, signature = jwt.split(".")
    other = nats_jwt.signed(claims, Key.new("A")).split(".")[1]
    (tmp_path / "changed.creds").write_text(text.replace(jwt, f"{head}.{other}.{signature}"))

    with pytest.raises(REFUSED):
        async with installation.connected(tmp_path / "changed.creds"):
            pass


async def test_services_reconnect_when_their_credentials_are_replaced(installation: Installation) -> None:
    settings = ServiceSettings(nats_url=installation.server.url, nats_credentials_file=installation.central("scaler"))
    client = await bus.connect(settings, "scaler")
    await admin("secrets", "init", str(installation.secrets), "--replace", "nats/scaler.creds")

    await installation.server.kill()
    await installation.server.restart()

    await until(lambda: client.is_connected, seconds=90, what="a new connection with the new login")
    await bus.close(client)
