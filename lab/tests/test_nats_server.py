"""The NATS provider with a real server."""

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import nats
import pytest
from clusterra_contracts.bus.permissions import Permissions, control_plane
from clusterra_contracts.bus.topology import MAX_PAYLOAD_BYTES
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer, ServerNotOurs, nats_server
from clusterra_lab.parts.nats_config import Listen, server_config
from clusterra_runtime.settings import ServiceSettings
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client

LISTEN = Listen("127.0.0.1", 4222, 8222, Path("/store"))
EDGE = Permissions(publish=("heartbeat.acme.c1",), subscribe=("scale.desired.acme.c1", "_EDGE.acme.c1.>"), replies=True)
SILENT = Permissions(publish=(), subscribe=("event.>",))
USERS = {"gateway": control_plane(), "edge": EDGE, "listener": SILENT}


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NatsServer]:
    async with nats_server(tmp_path_factory.mktemp("nats"), users=USERS) as server:
        yield server


async def connect(server: NatsServer, user: str, errors: list[Exception] | None = None) -> Client:
    async def record(error: Exception) -> None:
        if errors is not None:
            errors.append(error)

    password = server.passwords[user].read_text()
    return await nats.connect(server.url, user=user, password=password, error_cb=record, allow_reconnect=False)


async def processed(client: Client) -> None:
    """Wait until the server has processed all commands so far."""
    await client.flush()  # with nats-py 2.16 its PING overtakes buffered commands ...
    await client.flush()  # ... but not those that the first flush has sent


async def delivered(server: NatsServer, *, publisher: str, subscriber: str, subject: str, sample: str) -> bool:
    """Whether a message arrives; False only if the server reports a permissions violation."""
    errors: list[Exception] = []
    publishing, subscribing = await connect(server, publisher, errors), await connect(server, subscriber, errors)
    subscription = await subscribing.subscribe(subject)
    await processed(subscribing)
    await publishing.publish(sample, b"x")
    await until(lambda: subscription.pending_msgs or errors, seconds=90, what="a message or a permissions violation")
    for client in (publishing, subscribing):
        await client.close()
    assert all("permissions violation" in str(error) for error in errors)
    return not errors


async def allowed_to_publish(server: NatsServer, user: str, subject: str) -> bool:
    return await delivered(server, publisher=user, subscriber="gateway", subject=subject, sample=subject)


async def allowed_to_subscribe(server: NatsServer, user: str, subject: str) -> bool:
    sample = subject.replace(">", "any.thing")
    return await delivered(server, publisher="gateway", subscriber=user, subject=subject, sample=sample)


async def test_streams_survive_a_killed_server(server: NatsServer) -> None:
    client = await connect(server, "gateway")
    stream = client.jetstream()
    await stream.add_stream(name="KEEP", subjects=["keep.>"])
    await stream.publish("keep.it", b"safe")

    await server.kill()

    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))

    await client.close()
    await server.restart()

    client = await connect(server, "gateway")

    assert (await client.jetstream().get_last_msg("KEEP", "keep.it")).data == b"safe"
    await client.close()


@pytest.mark.parametrize("login", [{}, {"user": "edge", "pass": "wrong"}, {"user": "stranger", "pass": "x"}])
async def test_unknown_users_and_wrong_passwords_are_rejected(server: NatsServer, login: dict[str, str]) -> None:
    # Without nats-py, which leaves its socket open when it is rejected.
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    assert (await reader.readline()).startswith(b"INFO ")
    writer.write(b"CONNECT " + json.dumps(login).encode() + b"\r\nPING\r\n")
    assert await reader.readline() == b"-ERR 'Authorization Violation'\r\n"
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize(
    ("user", "subject", "allowed"),
    [
        ("edge", "heartbeat.acme.c1", True),
        ("edge", "heartbeat.acme.c2", False),
        ("edge", "heartbeat.rival.c1", False),
        ("edge", "scale.desired.acme.c1", False),
        ("edge", "$JS.API.STREAM.LIST", False),
        ("edge", "$SYS.REQ.SERVER.PING", False),
        ("listener", "event.acme.c1.job", False),
        ("gateway", "scale.desired.acme.c1", True),
    ],
)
async def test_a_user_may_publish_only_to_allowed_subjects(
    server: NatsServer, user: str, subject: str, allowed: bool
) -> None:
    assert await allowed_to_publish(server, user, subject) is allowed


@pytest.mark.parametrize(
    ("user", "subject", "allowed"),
    [
        ("edge", "scale.desired.acme.c1", True),
        ("edge", "scale.desired.rival.c1", False),
        ("edge", "scale.desired.>", False),
        ("edge", ">", False),
        ("edge", "_INBOX.>", False),
        ("listener", "event.acme.>", True),
        ("listener", "heartbeat.>", False),
    ],
)
async def test_a_user_may_subscribe_only_to_allowed_subjects(
    server: NatsServer, user: str, subject: str, allowed: bool
) -> None:
    assert await allowed_to_subscribe(server, user, subject) is allowed


async def test_an_edge_agent_may_answer_requests(server: NatsServer) -> None:
    edge, gateway = await connect(server, "edge"), await connect(server, "gateway")
    requests = await edge.subscribe("_EDGE.acme.c1.ask")
    await processed(edge)
    answer = asyncio.create_task(gateway.request("_EDGE.acme.c1.ask", b"?", timeout=5))

    await (await requests.next_msg(timeout=5)).respond(b"!")

    assert (await answer).data == b"!"
    await edge.close()
    await gateway.close()


async def test_the_server_announces_the_payload_limit(server: NatsServer) -> None:
    client = await connect(server, "gateway")
    assert client.max_payload == MAX_PAYLOAD_BYTES
    await client.close()


async def test_passwords_are_kept_over_restarts_and_readable_only_by_their_owner(tmp_path: Path) -> None:
    passwords = []
    for _ in range(2):
        async with nats_server(tmp_path, users={"edge": EDGE}) as server:
            environment = server.environment("edge")
            passwords.append(Path(environment["CLUSTERRA_NATS_PASSWORD_FILE"]).read_text())
            await (await connect(server, "edge")).close()

    assert passwords[0] == passwords[1]
    assert len(passwords[0]) > 40

    secret = [path for path in tmp_path.rglob("*") if path.is_file() and passwords[0].encode() in path.read_bytes()]

    assert {path.name for path in secret} == {"edge", "nats-server.conf"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}
    assert passwords[0] not in "".join(environment.values())


async def test_settings_and_environment_name_the_same_credentials(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = server.settings("edge")
    assert settings.nats_password_file == server.passwords["edge"]
    for name, value in server.environment("edge").items():
        monkeypatch.setenv(name, value)
    assert settings == ServiceSettings()


async def test_a_server_without_users_accepts_every_client(tmp_path: Path) -> None:
    async with nats_server(tmp_path) as server:
        client = await nats.connect(server.url)
        assert server.environment("anybody") == {"CLUSTERRA_NATS_URL": server.url}
        assert server.settings("anybody") == ServiceSettings(nats_url=server.url)
        await client.close()


async def test_settings_of_a_server_from_the_environment_have_its_credentials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CLUSTERRA_NATS_URL", "nats://elsewhere.example:4222")
    monkeypatch.setenv("CLUSTERRA_NATS_CREDENTIALS_FILE", "/run/creds")
    async with nats_server(tmp_path, users=USERS) as server:
        settings = server.settings("gateway")
    assert (settings.nats_url, settings.nats_credentials_file) == ("nats://elsewhere.example:4222", Path("/run/creds"))


async def test_a_server_from_the_environment_is_used_and_never_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CLUSTERRA_NATS_URL", "nats://elsewhere.example:4222")
    monkeypatch.setenv("CLUSTERRA_NATS_USER", "me")

    async with nats_server(tmp_path, users=USERS) as server:
        assert server.environment("gateway") == {
            "CLUSTERRA_NATS_URL": "nats://elsewhere.example:4222",
            "CLUSTERRA_NATS_USER": "me",
        }
        for act in (server.kill, server.restart):
            with pytest.raises(ServerNotOurs, match="where it was"):
                await act()

    assert list(tmp_path.iterdir()) == []


subjects = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=("Zs", "Cc", "Cs")), min_size=1), max_size=3
).map(tuple)
permissions = st.builds(Permissions, publish=subjects, subscribe=subjects, replies=st.booleans())


@given(st.dictionaries(st.text(min_size=1), st.tuples(st.text(), permissions), min_size=1, max_size=4))
def test_the_configuration_has_exactly_the_permissions_of_each_user(users: dict[str, tuple[str, Permissions]]) -> None:
    config = json.loads(server_config(LISTEN, users))

    assert config["host"] == "127.0.0.1"
    assert config["http"].startswith("127.0.0.1:")

    rendered = {user["user"]: user for user in config["authorization"]["users"]}

    assert set(rendered) == set(users)

    for name, (password, permissions) in users.items():
        assert rendered[name]["password"] == password
        for kind, subjects in (("publish", permissions.publish), ("subscribe", permissions.subscribe)):
            rule = rendered[name]["permissions"][kind]
            assert rule == ({"allow": list(subjects)} if subjects else {"deny": [">"]})
        assert rendered[name]["permissions"]["allow_responses"] is permissions.replies


def test_the_configuration_without_users_has_no_authorization() -> None:
    assert "authorization" not in json.loads(server_config(LISTEN, {}))
