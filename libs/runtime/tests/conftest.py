"""Real servers for the runtime's tests: one AWS emulator for the whole run, and a NATS server per test."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from clusterra_lab.parts.aws import Aws, aws_emulator
from clusterra_lab.parts.nats import NatsServer, nats_server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def emulator(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Aws]:
    async with aws_emulator(tmp_path_factory.mktemp("aws")) as running:
        yield running


@pytest.fixture(scope="module")
def aws(emulator: Aws) -> Iterator[None]:
    """The AWS environment variables point to the emulator, but not in the tests of other packages."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in emulator.environment().items():
            patch.setenv(name, value)
        yield


@pytest_asyncio.fixture
async def nats(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with nats_server(tmp_path) as server:
        yield server
