"""The servers that the events service needs."""

from collections.abc import AsyncIterator

import pytest
from clusterra_lab.aws import aws_emulator
from clusterra_lab.nats import NatsServer, nats_server
from clusterra_runtime import bus, topology
from clusterra_runtime.settings import ServiceSettings


@pytest.fixture(scope="module")
async def nats(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NatsServer]:
    async with nats_server(tmp_path_factory.mktemp("nats")) as server:
        client = await bus.connect(ServiceSettings(nats_url=server.url), "topology")
        await topology.apply(client)
        await bus.close(client)
        yield server


@pytest.fixture(scope="module")
async def environment(nats: NatsServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, str]]:
    """The environment of the service's process."""
    async with aws_emulator(tmp_path_factory.mktemp("aws")) as aws:
        yield {**nats.environment(), **aws.environment()}
