"""The configuration of a nats-server."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from clusterra_contracts.bus.permissions import Permissions
from clusterra_contracts.bus.topology import MAX_PAYLOAD_BYTES

MAX_STORE_BYTES = 8 * 1024**3
RESOLVER = "resolver.conf"
"""The file beside the configuration with the accounts of operator mode."""


@dataclass(frozen=True)
class Listen:
    """Addresses and store folder of a server, as the server itself sees them."""

    host: str
    port: int
    monitor_port: int
    store: Path


@dataclass(frozen=True)
class Member:
    """A server's place in a cluster of servers: its name, and the ports at which the servers reach each other."""

    name: str
    port: int
    ports: tuple[int, ...]
    """Those of all servers of the cluster, on the same host."""


def server_config(listen: Listen, users: Mapping[str, tuple[str, Permissions]]) -> str:
    """The configuration of nats-server, as JSON; `users` maps names to passwords and permissions.

    Without users, every client may do everything. With users, a subject in no list is denied.
    """
    config: dict[str, object] = {
        "host": listen.host,
        "port": listen.port,
        "http": f"{listen.host}:{listen.monitor_port}",
        "max_payload": MAX_PAYLOAD_BYTES,
        "jetstream": {"store_dir": str(listen.store), "max_file_store": MAX_STORE_BYTES},
    }
    if users:
        config["authorization"] = {
            "users": [
                {"user": user, "password": password, "permissions": _permissions(permissions)}
                for user, (password, permissions) in users.items()
            ]
        }
    return json.dumps(config, indent=2, ensure_ascii=False)


def operator_config(listen: Listen) -> str:
    """The configuration of nats-server in operator mode. It includes resolver.conf from its own folder."""
    accounts = {"type": "full", "dir": str(listen.store / "accounts"), "allow_delete": False}
    settings = json.loads(server_config(listen, {})) | {"resolver": accounts}
    # Not one JSON document, which could not include a file.
    lines = [f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in settings.items()]
    return "\n".join([f"include {RESOLVER}", *lines])


def member_config(listen: Listen, users: Mapping[str, tuple[str, Permissions]], member: Member) -> str:
    """The configuration of `server_config` for a server of a cluster."""
    settings = json.loads(server_config(listen, users))
    settings["server_name"] = member.name
    settings["cluster"] = {
        "name": "lab",
        "host": listen.host,
        "port": member.port,
        "routes": [f"nats://{listen.host}:{port}" for port in member.ports],
    }
    return json.dumps(settings, indent=2, ensure_ascii=False)


def _permissions(permissions: Permissions) -> dict[str, object]:
    return {
        "publish": _subjects(permissions.publish),
        "subscribe": _subjects(permissions.subscribe),
        "allow_responses": permissions.replies,
    }


def _subjects(subjects: Iterable[str]) -> dict[str, list[str]]:
    # For nats-server an empty allow list means "everything".
    allowed = list(subjects)
    return {"allow": allowed} if allowed else {"deny": [">"]}
