"""The console's development server has the pages, and passes the API on to the gateway."""

import shutil
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from clusterra_lab.machine.ports import free_port
from clusterra_lab.stack.console import DevelopmentServer


async def test_pages_come_from_the_server_and_answers_from_the_gateway(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not in PATH: `make test-browser` has it")

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"path": request.path})

    gateway = web.AppRunner(application := web.Application())
    application.router.add_get("/{path:.*}", answer)
    await gateway.setup()
    await web.TCPSite(gateway, "127.0.0.1", port := free_port()).start()
    server = DevelopmentServer(free_port(), tmp_path / "console.log")

    async with server.running(f"http://127.0.0.1:{port}"), aiohttp.ClientSession(server.origin) as http:
        async with http.get("/v1/users/me") as answered:
            told = await answered.json()
        async with http.get("/jobs", headers={"Accept": "text/html"}) as answered:
            page = await answered.text()
    await gateway.cleanup()

    assert told == {"path": "/v1/users/me"}
    assert "/src/main.tsx" in page
