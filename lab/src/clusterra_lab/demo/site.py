"""What the demo needs of the installation that it runs on, and one that was started elsewhere, such as by Compose."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import Client
from clusterra_runtime.settings import ServiceSettings

from clusterra_lab.parts.login import LoginRejected, log_in
from clusterra_lab.parts.user import User, logged_in

CLUSTER = ClusterRef(tenant="acme", cluster="main")
"""The cluster of an installation that runs the demo."""


class DemoSite(Protocol):
    """A running installation with one cluster and an empty fleet."""

    @property
    def bus(self) -> Client:
        """A client that may subscribe to the cluster's subjects."""

    @property
    def cluster(self) -> ClusterRef:
        """The cluster that the demo's people may use."""

    def user(self, email: str) -> AbstractAsyncContextManager[User]:
        """Log a person in until the block ends. Raises LoginRejected, UnexpectedAnswerError."""

    def registered_at(self, node: str) -> datetime | None:
        """A node's first registration with slurmctld; None where only slurmctld's whole seconds are known."""


@dataclass(frozen=True)
class RunningInstallation:
    """An installation that something else started and configured."""

    bus: Client
    gateway_url: str
    cluster: ClusterRef
    passwords: Path
    """A folder with each person's password in a file with the name before the @ of the address."""

    def user(self, email: str) -> AbstractAsyncContextManager[User]:
        """See `DemoSite.user`."""

        async def through_form(authorization_url: str) -> str:
            subject = email.partition("@")[0]
            try:
                password = (self.passwords / subject).read_text().strip()
            except FileNotFoundError:
                raise LoginRejected(f"{self.passwords} has no password of {subject}") from None
            return await log_in(authorization_url, subject, password)

        return logged_in(self.gateway_url, self.cluster.cluster, through_form)

    def registered_at(self, node: str) -> datetime | None:
        """See `DemoSite.registered_at`."""
        return None


@asynccontextmanager
async def running_installation(
    gateway_url: str, passwords: Path, cluster: ClusterRef = CLUSTER
) -> AsyncIterator[RunningInstallation]:
    """Connect to the installation whose NATS the environment names (`CLUSTERRA_NATS_*`). Raises BusUnavailable."""
    client = await bus.connect(ServiceSettings(), "demo")
    try:
        yield RunningInstallation(client, gateway_url, cluster, passwords)
    finally:
        await bus.close(client)
