"""The servers that the events service needs: NATS and DynamoDB."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from clusterra_lab.parts.aws import Aws, aws_emulator
from clusterra_lab.parts.aws_rights import with_rights
from clusterra_lab.parts.declared_nats import declared_nats
from clusterra_lab.parts.declared_tables import declare_tables, table_policy
from clusterra_lab.parts.nats import NatsServer


@pytest.fixture
async def nats(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with declared_nats(tmp_path / "nats") as server:
        yield server


@pytest.fixture(scope="module")
async def aws(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Aws]:
    async with aws_emulator(tmp_path_factory.mktemp("aws")) as aws:
        yield aws


@pytest.fixture
async def environment(nats: NatsServer, aws: Aws, tmp_path: Path) -> AsyncIterator[dict[str, str]]:
    """The environment of the service's process. Every test has its own tables, and the service has only its rights."""
    settings = {**nats.environment(), "CLUSTERRA_TABLE_PREFIX": f"test-{secrets.token_hex(4)}-"}
    await declare_tables({**settings, **aws.environment()}, tmp_path)
    async with with_rights(aws, await table_policy("events", settings, tmp_path)) as restricted:
        yield {**settings, **restricted.environment()}
