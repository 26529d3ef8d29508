"""Tables of DynamoDB for one test or module, in the emulator that all tests of a process share."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from clusterra_admin.tables.declared import USES
from clusterra_admin.tables.policy import policy
from clusterra_lab.parts.aws import Aws
from clusterra_lab.parts.aws_rights import with_rights
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.store import Table


@asynccontextmanager
async def own_tables(service: str, emulator: Aws) -> AsyncIterator[dict[str, str]]:
    """The environment of a service that has tables of its own, and on them only its rights."""
    prefix = f"test-{secrets.token_hex(4)}-"
    await create_tables(emulator, prefix, *(use.table for use in USES[service]))
    async with with_rights(emulator, policy(service, prefix=prefix)) as restricted:
        yield {"CLUSTERRA_TABLE_PREFIX": prefix, **restricted.environment()}


async def create_tables(emulator: Aws, prefix: str, *tables: Table) -> None:
    """Create tables like `clusterra-admin tables apply`, but in this process: one of its own takes long to start."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in emulator.environment().items():
            patch.setenv(name, value)
        async with DynamoDBStore(table_prefix=prefix) as store:
            await store.create_tables(*tables)
