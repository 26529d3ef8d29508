"""What the tests of `clusterra-admin` share: a NATS server, and tables of their own."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from clusterra_lab.parts.aws import Aws
from clusterra_lab.parts.declared_nats import declared_nats
from clusterra_lab.parts.nats import NatsServer


@pytest.fixture
async def nats(tmp_path: Path) -> AsyncIterator[NatsServer]:
    """A server with the declared streams, which only this test uses."""
    async with declared_nats(tmp_path / "nats") as server:
        yield server


@pytest.fixture
def environment(emulator: Aws) -> dict[str, str]:
    """Settings with a prefix of tables that only this test uses."""
    return {**emulator.environment(), "CLUSTERRA_TABLE_PREFIX": f"test-{secrets.token_hex(4)}-"}
