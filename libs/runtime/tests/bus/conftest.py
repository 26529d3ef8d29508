"""Real NATS servers with the declared topology: a shared one, and separate ones for tests that stop their server."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from clusterra_contracts.identity import ClusterRef
from clusterra_lab.parts.declared_nats import declared_nats
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import Client
from clusterra_runtime.settings import ServiceSettings


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    context = declared_nats(tmp_path_factory.mktemp("nats"))
    with asyncio.Runner() as runner:
        server = runner.run(context.__aenter__())
        yield server
        runner.run(context.__aexit__(None, None, None))


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with declared_nats(tmp_path / "nats") as own:
        yield own


@pytest.fixture
def settings(shared_server: NatsServer) -> ServiceSettings:
    return shared_server.settings()


@pytest.fixture
async def client(settings: ServiceSettings) -> AsyncIterator[Client]:
    async with connected(settings) as connection:
        yield connection


@asynccontextmanager
async def connected(settings: ServiceSettings, service: str = "test") -> AsyncIterator[Client]:
    connection = await bus.connect(settings, service)
    try:
        yield connection
    finally:
        await bus.close(connection)


@pytest.fixture
def ref() -> ClusterRef:
    """A cluster that only this test uses."""
    return ClusterRef(tenant=f"t{uuid.uuid4().hex[:12]}", cluster="c1")


class Usage:
    """The share of a CPU that this process has used since the object was created."""

    def __init__(self) -> None:
        self._started, self._used = time.monotonic(), time.process_time()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    @property
    def share(self) -> float:
        return (time.process_time() - self._used) / self.seconds
