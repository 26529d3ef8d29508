"""JupyterLab in the shared folder of a lab, and a client of its kernels."""

import shutil
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientWebSocketResponse
from clusterra_lab.machine.cache import cache_dir
from clusterra_lab.machine.file_lock import exclusive_lock
from clusterra_lab.machine.process import run
from clusterra_lab.stack.stack import Stack
from uv import find_uv_bin

PACKAGES = ("jupyterlab==4.5.*", "ipykernel==7.*")
FOLDER = "jupyter"
"""Its place in the shared folder."""
_COMMAND = """\
#!/bin/sh
# `jupyter lab` of the packages beside this folder, with the Python of the workers.
export PYTHONPATH="$(dirname "$0")/../packages"
export PYTHONDONTWRITEBYTECODE=1
shift
exec /usr/bin/python3 -m jupyterlab "$@"
"""


async def installed_jupyter(lab: Stack) -> str:
    """Put JupyterLab into the shared folder. Returns its path in jobs; its packages are downloaded once."""
    asked = await lab.slurm.run("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    version = asked.stdout.strip()
    packages = cache_dir() / f"jupyter-{version}"
    async with exclusive_lock(packages.with_suffix(".lock"), seconds=600, what="the installation of Jupyter"):
        if not (packages / "complete").exists():
            shutil.rmtree(packages, ignore_errors=True)
            options = ("--python-version", version, "--only-binary", ":all:", "--target", str(packages))
            log = packages.with_suffix(".log")
            made = await run("jupyter", [find_uv_bin(), "pip", "install", "--quiet", *options, *PACKAGES], log=log)
            assert made.exit_code == 0, log.read_text()
            (packages / "complete").touch()
    site = Path(lab.slurm.shared_dir) / FOLDER
    if not site.exists():
        shutil.copytree(packages, site / "packages", copy_function=_linked)
        (site / "bin").mkdir()
        (site / "bin" / "jupyter").write_text(_COMMAND)
        (site / "bin" / "jupyter").chmod(0o755)
    return f"{lab.slurm.shared_path}/{FOLDER}"


def _linked(source: str, target: str) -> str:
    try:
        Path(target).hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)
    return target


@dataclass(frozen=True)
class Kernel:
    """An open WebSocket to a kernel."""

    socket: ClientWebSocketResponse

    async def run(self, code: str) -> str:
        """Run code and return the text of its result."""
        message_id = uuid.uuid4().hex
        header = {"msg_id": message_id, "msg_type": "execute_request", "username": "", "session": "s", "version": "5.3"}
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        parts: dict[str, Any] = {"parent_header": {}, "metadata": {}, "buffers": []}
        await self.socket.send_json({"header": header, "content": content, "channel": "shell", **parts})
        result = ""
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
