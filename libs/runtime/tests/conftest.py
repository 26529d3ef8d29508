"""Real servers for the runtime's tests: the AWS emulator and the Kubernetes of all tests, and NATS for each test."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from clusterra_lab.parts.aws import Aws
from clusterra_lab.parts.nats import NatsServer, nats_server


def pytest_configure(config: pytest.Config) -> None:
    """Register the fixtures of the control plane that the tests of all folders share."""
    config.pluginmanager.import_plugin("kube_plane")


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
