"""The servers that the events service needs: NATS and DynamoDB."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from clusterra_lab.parts.aws import Aws
from clusterra_lab.parts.declared_nats import declared_nats
from clusterra_lab.parts.nats import NatsServer
from own_tables import own_tables


@pytest.fixture
async def nats(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with declared_nats(tmp_path / "nats") as server:
        yield server


@pytest.fixture
async def environment(nats: NatsServer, emulator: Aws) -> AsyncIterator[dict[str, str]]:
    """The environment of the service's process. Every test has its own tables, and the service has only its rights."""
    async with own_tables("events", emulator) as environment:
        yield {**nats.environment(), **environment}
