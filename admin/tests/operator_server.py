"""A real nats-server in operator mode, with the secrets of `clusterra-admin secrets init`."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats.errors
from admin_command import admin
from clusterra_admin.authority.operator_accounts import OperatorAccounts
from clusterra_admin.authority.servers import AccountServers
from clusterra_admin.secrets import declared
from clusterra_contracts.identity import ClusterRef
from clusterra_lab.parts.nats import NatsServer, OperatorMode, nats_server
from clusterra_runtime.nats import bus, topology
from clusterra_runtime.settings import ServiceSettings
from nats.aio.client import Client


class Installation:
    """A directory of secrets, and a server that uses it."""

    def __init__(self, directory: Path, server: NatsServer) -> None:
        self.secrets = directory / "secrets"
        self.server = server

    @asynccontextmanager
    async def connected(
        self, credentials: Path | None, errors: list[str] | None = None, inbox: str = "_INBOX_test"
    ) -> AsyncIterator[Client]:
        async def record(error: Exception) -> None:
            if errors is not None:
                errors.append(str(error).lower())

        client = Client()
        options: dict[str, Any] = {
            "error_cb": record,
            "inbox_prefix": inbox,
            "allow_reconnect": False,
            "connect_timeout": 5,
        }
        if credentials is not None:
            options["user_credentials"] = str(credentials)
        try:
            await client.connect(self.server.url, **options)
        except nats.errors.Error:
            if client._transport is not None:  # nats-py leaves the socket of a rejected connection open
                client._transport.close()  # type: ignore[no-untyped-call]
            raise
        try:
            yield client
        finally:
            await client.close()

    def central(self, name: str) -> Path:
        return self.secrets / "nats" / f"{name}.creds"

    def agent(self, ref: ClusterRef) -> Path:
        return self.secrets / declared.agent_credentials(ref)

    async def send_accounts(self) -> None:
        """Let the server know the accounts in the directory's resolver.conf, as the authority does."""
        login = self.secrets / declared.AUTHORITY_SYSTEM_CREDENTIALS
        settings = ServiceSettings(nats_url=self.server.url, nats_credentials_file=login)
        system = await bus.connect(settings, "authority-system", inbox_prefix="_INBOX_authority")
        await OperatorAccounts(AccountServers(system), self.secrets / declared.RESOLVER).send()
        await bus.close(system)


@asynccontextmanager
async def installed(directory: Path, clusters: Iterable[ClusterRef]) -> AsyncIterator[Installation]:
    """A server with the streams of the product and the accounts of `clusters`, until the block ends."""
    secrets = directory / "secrets"
    for ref in clusters:
        await admin("secrets", "init", str(secrets), "--tenant", ref.tenant, "--cluster", ref.cluster)
    operator = OperatorMode(secrets / declared.RESOLVER, {"admin": secrets / declared.ADMIN_CREDENTIALS})
    async with nats_server(directory / "nats", operator=operator) as server:
        client = await bus.connect(server.settings("admin"), "test")
        await topology.apply(client)
        await bus.close(client)
        yield Installation(directory, server)


async def flushed(client: Client) -> None:
    """Wait until the server has handled all that the client has sent."""
    await client.flush(60)
    await client.flush(60)  # with nats-py the PING of the first overtakes buffered commands
