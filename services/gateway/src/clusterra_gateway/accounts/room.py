"""The room of accounts: the record of tenants, people and clusters, and what the bus is told of it."""

from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.registry import Registry

from clusterra_gateway.accounts.admin_events import KeptEvents
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS
from clusterra_gateway.accounts.projection import Projection
from clusterra_gateway.room import Room


def room(directory: Directory, client: Client, registry: Registry, projection: Projection) -> Room:
    """What this room offers."""
    return Room(
        background={
            "projection": projection.sweeper().run,
            "kept events": KeptEvents(directory.store, client, registry).sweeper().run,
            "outbox": lambda: directory.outbox.relay(ACCOUNTS),
        }
    )
