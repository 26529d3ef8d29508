"""Real servers for the runtime's tests: an AWS emulator for the whole run, a NATS server per test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from clusterra_lab.parts.aws import aws_emulator
from clusterra_lab.parts.nats import NatsServer, nats_server


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def aws(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[None]:
    """AWS' own environment variables lead to an emulator, which the tests of other packages must not be given."""
    with pytest.MonkeyPatch.context() as patch:
        async with aws_emulator(tmp_path_factory.mktemp("aws")) as emulator:
            for name, value in emulator.environment().items():
                patch.setenv(name, value)
            yield


@pytest_asyncio.fixture
async def nats(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with nats_server(tmp_path) as server:
        yield server
