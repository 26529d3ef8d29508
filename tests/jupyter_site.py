"""JupyterLab in the shared folder of a lab, and a client of its kernels."""

import shutil
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientWebSocketResponse
from cached_packages import installed, linked
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.bus.connection import GatewayBus
from clusterra_gateway.connections import Connections
from clusterra_gateway.directory.maps.map_records import MappedUsers, MapRecords
from clusterra_gateway.identity.access.signed_tokens import SigningKeys
from clusterra_gateway.sessions.idle_cull import IdleCull
from clusterra_gateway.sessions.room import SessionParts
from clusterra_gateway.settings import Settings
from clusterra_lab.stack.stack import Stack
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.outbox import Outbox

PACKAGES = ("jupyterlab==4.5.*", "ipykernel==7.*")
FOLDER = "jupyter"
"""Its place in the shared folder."""
_COMMAND = """\
#!/bin/sh
# `jupyter lab` of the packages beside this folder, with the Python of the workers.
packages="$(cd "$(dirname "$0")/../packages" && pwd)"
export PYTHONPATH="$packages" PYTHONDONTWRITEBYTECODE=1
export JUPYTER_PATH="$packages/share/jupyter" JUPYTERLAB_DIR="$packages/share/jupyter/lab"
shift
exec /usr/bin/python3 -m jupyterlab "$@"
"""


async def installed_jupyter(lab: Stack) -> str:
    """Put JupyterLab into the shared folder. Returns its path in jobs."""
    asked = await lab.slurm.run("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    version = asked.stdout.strip()
    packages = await installed(f"jupyter-{version}", *PACKAGES, options=("--python-version", version))
    site = Path(lab.slurm.shared_dir) / FOLDER
    if not site.exists():
        shutil.copytree(packages, site / "packages", copy_function=linked)
        (site / "bin").mkdir()
        (site / "bin" / "jupyter").write_text(_COMMAND)
        (site / "bin" / "jupyter").chmod(0o755)
    return f"{lab.slurm.shared_path}/{FOLDER}"


@dataclass(frozen=True)
class Kernel:
    """An open WebSocket to a kernel."""

    socket: ClientWebSocketResponse

    async def begin(self, code: str) -> str:
        """Have code run. Returns the id of the request."""
        message_id = uuid.uuid4().hex
        header = {"msg_id": message_id, "msg_type": "execute_request", "username": "", "session": "s", "version": "5.3"}
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        parts: dict[str, Any] = {"parent_header": {}, "metadata": {}, "buffers": []}
        await self.socket.send_json({"header": header, "content": content, "channel": "shell", **parts})
        return message_id

    async def run(self, code: str) -> str:
        """Run code and return the text of its result."""
        message_id, result = await self.begin(code), ""
        while True:
            answer = await self.socket.receive_json(timeout=60)
            if answer["parent_header"].get("msg_id") != message_id:
                continue
            match answer["msg_type"]:
                case "execute_result":
                    result = answer["content"]["data"]["text/plain"]
                case "error":
                    raise AssertionError(answer["content"])
                case "status" if answer["content"]["execution_state"] == "idle":
                    return result


@asynccontextmanager
async def kernel(browser: ClientSession, page: str, kernel_id: str) -> AsyncIterator[Kernel]:
    """Open a kernel of a session's page until the block ends."""
    origin = page.split("/sessions/")[0]
    address = f"{page}api/kernels/{kernel_id}/channels"
    async with browser.ws_connect(address, headers={"Origin": origin}) as socket:
        yield Kernel(socket)


@asynccontextmanager
async def idle_cull(lab: Stack, *, minute_seconds: float) -> AsyncIterator[IdleCull]:
    """A cull of the lab's idle sessions with short minutes, over the lab's own record, bus and Slurm.

    The environment must lead to the lab's DynamoDB.
    """
    settings = Settings(
        oidc_issuer="https://issuer.example", oidc_client_id="clusterra", sessions_url=lab.parts.sessions_url
    )
    client, registry = lab.bus, Registry()
    await registry.start(client)
    try:
        async with (
            DynamoDBStore(table_prefix=settings.table_prefix) as store,
            Outbox(store, partial(bus.store, client)) as outbox,
            Secrets() as secrets,
        ):
            gateway_bus = GatewayBus.over(client, registry, edge_timeout_seconds=settings.edge_timeout_seconds)
            keys = SigningKeys.load(lab.parts.directory / "session-key")
            connections = Connections(settings, Directory(store, outbox), gateway_bus, secrets)
            parts, users = SessionParts.of(connections, keys), MappedUsers(MapRecords(store))
            culled = parts.idle_cull(connections, users)
            culled.minute_seconds = minute_seconds
            yield culled
    finally:
        await registry.stop()
