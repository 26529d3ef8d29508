"""What a gateway is connected to: the record, the bus, and the secrets of sites."""

from dataclasses import dataclass

from clusterra_runtime.secrets.reader import Secrets

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.bus.connection import GatewayBus
from clusterra_gateway.settings import Settings


@dataclass(frozen=True)
class Connections:
    """The open connections of a process, and its settings."""

    settings: Settings
    directory: Directory
    bus: GatewayBus
    secrets: Secrets
