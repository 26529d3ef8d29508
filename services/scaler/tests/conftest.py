"""Fixtures: the servers that the scaler needs, and a reference to a new cluster for each test."""

import secrets
from collections.abc import AsyncIterator

import pytest
from clusterra_contracts.identity import ClusterRef
from clusterra_lab.parts.aws import Aws, aws_emulator
from clusterra_lab.parts.aws_rights import with_rights
from clusterra_lab.parts.declared_nats import declared_nats
from clusterra_lab.parts.declared_tables import declare_tables, table_policy
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import Client


@pytest.fixture(scope="module")
async def nats(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NatsServer]:
    async with declared_nats(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture(scope="module")
async def aws(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Aws]:
    async with aws_emulator(tmp_path_factory.mktemp("aws")) as aws:
        yield aws


@pytest.fixture(scope="module")
async def environment(
    nats: NatsServer, aws: Aws, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[str, str]]:
    """The environment of the scaler processes, which have only the scaler's rights."""
    directory = tmp_path_factory.mktemp("tables")
    settings = {**nats.environment(), "CLUSTERRA_TABLE_PREFIX": f"test-{secrets.token_hex(4)}-"}
    await declare_tables({**settings, **aws.environment()}, directory)
    async with with_rights(aws, await table_policy("scaler", settings, directory)) as restricted:
        yield {**settings, **restricted.environment()}


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
