"""Every kind of login over every family of subjects and the JetStream API, at a real server in operator mode.

`recorded/permissions.json` has what each may publish and subscribe; all else is refused. A subject or a stream that is
new is probed by itself: who may use it must be in the table. CLUSTERRA_RECORD_PERMISSIONS=1 writes the table anew:
read the difference. `admin` is not in it: operators may do everything.
"""

import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import nats.errors
import pytest
from clusterra_admin.secrets import declared, nats_jwt
from clusterra_admin.secrets.nkey import Key
from clusterra_contracts.bus import permissions, subjects
from clusterra_contracts.bus.messages import PUBLICATIONS, REQUESTS
from clusterra_contracts.bus.topology import BOUNDS, CONSUMERS
from clusterra_contracts.identity import ClusterRef, TenantRef
from clusterra_contracts.rpc.bus_logins import BusLogin, SignBusLogin
from clusterra_runtime.nats import bus, rpc
from operator_server import Installation, flushed, installed
from test_authority import authority

pytestmark = pytest.mark.servers

MINE, THEIRS = ClusterRef(tenant="acme", cluster="c1"), ClusterRef(tenant="rival", cluster="c1")
TABLE = Path(__file__).parent / "recorded" / "permissions.json"
INTEGRATIONS = {"integration": None, "integration of a cluster": "c1"}
LOGINS = (*permissions.CENTRAL_SERVICES, "authority", "authority in the system account", "edge-agent", *INTEGRATIONS)
_SUBJECT = re.compile(r'permissions violation for (publish|subscription) to "([^"]+)"', re.IGNORECASE)


def families() -> list[str]:
    """A subject of each message, of this tenant and of another, and of the JetStream API of each stream."""
    found = []
    for address in (*(each.address for each in PUBLICATIONS), *(each.address for each in REQUESTS)):
        for ref in (MINE, THEIRS):
            names = {"tenant": ref.tenant, "cluster": ref.cluster, "kind": "job.failed"}
            services = permissions.CENTRAL_SERVICES if "{service}" in address else ("",)
            found += [address.format(**names, service=service, instance="i1") for service in services]
    found += [f"dlq.{subjects.scale_desired(ref)}" for ref in (MINE, THEIRS)]
    for stream in BOUNDS:
        found += [f"$JS.API.STREAM.{verb}.{stream}" for verb in ("INFO", "CREATE", "UPDATE", "DELETE", "PURGE")]
        found += [f"$JS.API.STREAM.{verb}.{stream}" for verb in ("MSG.GET", "MSG.DELETE", "SNAPSHOT", "RESTORE")]
        found += [f"$JS.API.CONSUMER.{verb}.{stream}" for verb in ("CREATE", "LIST", "NAMES")]
        found += [f"$JS.API.CONSUMER.CREATE.{stream}.mine.>", f"$JS.API.CONSUMER.DURABLE.CREATE.{stream}.mine"]
        found += [f"$JS.API.DIRECT.GET.{stream}", f"$JS.API.DIRECT.GET.{stream}.{subjects.scale_desired(MINE)}"]
    for each in CONSUMERS:
        path = f"{each.stream}.{each.name}"
        found += [f"$JS.API.CONSUMER.{verb}.{path}" for verb in ("INFO", "DELETE", "MSG.NEXT")]
        found.append(f"$JS.ACK.{path}.1.1.1.1.0")
    found += ["$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES", "$JS.API.ACCOUNT.PURGE.acme"]
    found += [f"$KV.leases.{service}.x" for service in permissions.CENTRAL_SERVICES]
    found += ["$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.ACCOUNT.AAAA.CLAIMS.LOOKUP", "$SYS.REQ.SERVER.PING", "$SYS.REQ.X"]
    found += ["_INBOX.x", *(f"_INBOX_{service}.x" for service in (*permissions.CENTRAL_SERVICES, "authority", "admin"))]
    found += [f"{permissions.inbox_prefix(ref)}.x" for ref in (MINE, THEIRS)]
    return list(dict.fromkeys(found))


WILDCARDS = (">", "*.>", "event.>", "event.acme.>", "event.acme.c1.>", "event.rival.>", "$JS.>", "$SYS.>", "_INBOX.>")


@pytest.fixture(scope="module")
async def installation(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    async with installed(tmp_path_factory.mktemp("table"), (MINE, THEIRS)) as installation, authority(installation):
        settings = installation.server.settings("admin").model_copy(
            update={"nats_credentials_file": installation.central("gateway")}
        )
        client = await bus.connect(settings, "gateway")
        for name, cluster in INTEGRATIONS.items():
            user = Key.new("U")
            request = SignBusLogin(
                credential_id="bc_0123456789abcdef", public_key=user.public, cluster=cluster, lifetime_seconds=3600
            )
            login = await rpc.call(client, subjects.bus_login(TenantRef(tenant="acme")), request, BusLogin)
            (installation.secrets / f"{name}.creds").write_text(nats_jwt.credentials(login.jwt, user))
        await bus.close(client)
        yield installation


def login_of(installation: Installation, name: str) -> Path:
    secrets = installation.secrets
    if name in INTEGRATIONS:
        return secrets / f"{name}.creds"
    if name == "edge-agent":
        return installation.agent(MINE)
    if name == "authority in the system account":
        return secrets / declared.AUTHORITY_SYSTEM_CREDENTIALS
    return installation.central(name)


async def allowed(installation: Installation, name: str) -> dict[str, list[str]]:
    """What the server does not refuse a login."""
    errors: list[str] = []
    async with installation.connected(login_of(installation, name), errors, "_INBOX_probe") as client:
        for subject in families():
            await client.publish(subject, b"")
        await flushed(client)
        for subject in (*families(), *WILDCARDS):
            await client.subscribe(subject)
        await flushed(client)
    refused = [match.groups() for error in errors if (match := _SUBJECT.search(error))]
    assert len(refused) == len(errors), [error for error in errors if not _SUBJECT.search(error)][:3]
    publish = {subject.lower() for verb, subject in refused if verb.lower() == "publish"}
    subscribe = {subject.lower() for verb, subject in refused if verb.lower() == "subscription"}
    return {
        "publish": [each for each in families() if each.lower() not in publish],
        "subscribe": [each for each in (*families(), *WILDCARDS) if each.lower() not in subscribe],
    }


@pytest.mark.parametrize("name", LOGINS)
async def test_a_login_may_do_what_its_row_says_and_nothing_else(name: str, installation: Installation) -> None:
    found = await allowed(installation, name)
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    if os.environ.get("CLUSTERRA_RECORD_PERMISSIONS"):
        TABLE.write_text(json.dumps(table | {name: found}, indent=1) + "\n")
        return

    assert found == table[name]


def test_the_table_has_a_row_for_each_login() -> None:
    assert set(json.loads(TABLE.read_text())) == set(LOGINS)


async def test_nobody_else_connects(installation: Installation) -> None:
    with pytest.raises(nats.errors.Error):
        async with installation.connected(None):
            pass


async def test_an_integration_sends_nothing_and_reads_its_events_alone(installation: Installation) -> None:
    for name, subject in (("integration", "event.acme."), ("integration of a cluster", "event.acme.c1.")):
        found = await allowed(installation, name)

        assert found["publish"] == []
        assert found["subscribe"]
        assert all(each.startswith(subject) for each in found["subscribe"]), found["subscribe"]


async def test_an_integration_answers_nobody(installation: Installation) -> None:
    errors: list[str] = []
    async with (
        installation.connected(installation.central("admin")) as central,
        installation.connected(installation.secrets / "integration.creds", errors) as program,
    ):
        answers, events = await central.subscribe("_INBOX_test.x"), await program.subscribe("event.acme.>")
        await flushed(central)
        await flushed(program)
        await central.publish(subjects.event(MINE, "job.failed"), b"{}", reply="_INBOX_test.x")
        message = await events.next_msg(timeout=5)
        await program.publish(message.reply or "_INBOX_test.x", b"an answer")
        await flushed(program)
        await flushed(central)

        assert any("permissions violation" in error for error in errors)
        # JetStream's acknowledgement of the event is the only answer.
        assert [each for each in _bodies(answers) if each == b"an answer"] == []


def _bodies(subscription: object) -> list[bytes]:
    queue = subscription._pending_queue  # type: ignore[attr-defined]
    return [queue.get_nowait().data for _ in range(queue.qsize())]
