"""The console's development server beside a lab: it shows each edit of the console's sources at once.

Pages come from the server, and it passes `/v1` on to the lab's gateway. Cookies know no ports, so both share a session.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from clusterra_lab.machine.ports import kept_port
from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import start, until

CONSOLE = Path(__file__).parents[4] / "console"
_HOST = "127.0.0.1"
_VITE = CONSOLE / "node_modules/vite/bin/vite.js"
_START_SECONDS = 60.0


class ConsoleNotInstalled(LabProblem):
    """The console's packages are missing."""


@dataclass(frozen=True)
class DevelopmentServer:
    """The server of one lab's folder. `node` must be in PATH."""

    port: int
    log: Path

    @property
    def origin(self) -> str:
        """Its address."""
        return f"http://{_HOST}:{self.port}"

    def environment(self) -> Mapping[str, str]:
        """The gateway's setting with which the server's pages may use the session."""
        return {"CLUSTERRA_CONSOLE_ORIGINS": json.dumps([self.origin])}

    @asynccontextmanager
    async def running(self, gateway_url: str) -> AsyncIterator[None]:
        """Run it until the block ends. Raises ProcessDied, TimeoutError."""
        argv = ["node", str(_VITE), "--host", _HOST, "--port", str(self.port), "--strictPort", "--clearScreen", "false"]
        env = {"CLUSTERRA_GATEWAY": gateway_url}
        process = await start("console", argv, log=self.log, env=env, cwd=CONSOLE)
        try:
            async with aiohttp.ClientSession() as http:

                async def answers() -> bool:
                    try:
                        async with http.get(self.origin) as answer:
                            return answer.status == 200
                    except aiohttp.ClientConnectionError:
                        return False

                what = "the console's development server"
                await until(answers, seconds=_START_SECONDS, what=what, every=0.1, process=process)
            yield
        finally:
            await process.stop()


def development_server(directory: Path) -> DevelopmentServer:
    """The server of a lab's folder, with the port that it had before, if that is free. Raises ConsoleNotInstalled."""
    if not _VITE.exists():
        raise ConsoleNotInstalled(f"{_VITE} is missing: `make console` installs it")
    return DevelopmentServer(kept_port(directory / "console-port"), directory / "logs" / "console.log")
