"""Fixtures: the servers that the scaler needs, and a reference to a new cluster for each test."""

import secrets
from collections.abc import AsyncIterator

import pytest
from clusterra_contracts.identity import ClusterRef
from clusterra_lab.parts.aws import Aws
from clusterra_lab.parts.declared_nats import declared_nats
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import Client
from own_tables import own_tables


@pytest.fixture(scope="module")
async def nats(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NatsServer]:
    async with declared_nats(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture(scope="module")
async def environment(nats: NatsServer, emulator: Aws) -> AsyncIterator[dict[str, str]]:
    """The environment of the scaler processes, which have only the scaler's rights."""
    async with own_tables("scaler", emulator) as environment:
        yield {**nats.environment(), **environment}


@pytest.fixture(scope="module")
async def client(nats: NatsServer) -> AsyncIterator[Client]:
    client = await bus.connect(nats.settings(), "test")
    yield client
    await bus.close(client)


@pytest.fixture(params=["family", "packing"])
def policy(request: pytest.FixtureRequest) -> str:
    """The name of each policy in turn."""
    return str(request.param)


@pytest.fixture
def ref() -> ClusterRef:
    return ClusterRef(tenant=f"t{secrets.token_hex(4)}", cluster="c1")
