"""A running gateway with stand-ins behind it, and the command of somebody who has a token there."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from clusterra_gateway.settings import Settings
from clusterra_lab.machine.ports import free_port
from clusterra_lab.parts.declared_nats import declared_nats
from clusterra_lab.parts.nats import NatsServer
from command_line import CommandLine
from gateway_world import World, running
from issuer_stand_in import CLIENT_ID, CLIENT_SECRET, issuer_stand_in
from operator_tokens import write_operators
from people_world import make_token


@pytest.fixture(scope="session")
async def nats(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NatsServer]:
    async with declared_nats(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture(scope="module")
async def world(nats: NatsServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """One gateway for the tests of a file."""
    folder = tmp_path_factory.mktemp("gateway")
    (folder / "session.key").write_bytes(secrets.token_bytes(48))
    (folder / "client.secret").write_text(CLIENT_SECRET)
    port = free_port()
    async with issuer_stand_in() as issuer:
        settings = Settings(
            nats_url=nats.url,
            http_port=port,
            public_url=f"http://127.0.0.1:{port}",
            oidc_issuer=issuer.address,
            oidc_client_id=CLIENT_ID,
            oidc_client_secret_file=folder / "client.secret",
            session_key_file=folder / "session.key",
            edge_timeout_seconds=3.0,
            operators_file=write_operators(folder / "operators.yaml", "anna"),
            secret_folders=(tmp_path_factory.getbasetemp(),),
            templates_dir=Path(__file__).parents[2] / "catalog" / "templates",
        )
        async with running(settings, issuer) as world:
            yield world


@pytest.fixture
async def command(world: World, tmp_path: Path) -> CommandLine:
    """The command of ada, who has signed in nowhere."""
    return CommandLine(tmp_path, {"CLUSTERRA_URL": world.url, "CLUSTERRA_CLUSTER": "main"})


@pytest.fixture
async def ada(world: World, command: CommandLine) -> AsyncIterator[CommandLine]:
    """The command of ada, with a token in its environment."""
    browser = await world.login("ada@acme.example")
    token = await make_token(browser)
    yield command.having(CLUSTERRA_TOKEN=token["token"])
    async with browser.delete(f"/v1/users/me/tokens/{token['id']}") as answer:
        assert answer.status in (204, 404), await answer.text()
