"""A relay before a real slurmrestd that spoils single fields of single records on their way to the proxy."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web
from clusterra_lab.machine.ports import free_port
from clusterra_proxy.slurmrestd.connector import SlurmrestdConnector

type Record = dict[str, Any]


class BadAnswers:
    """Relays all requests. `spoil` changes each job and node record of an answer, and statistics, in place."""

    def __init__(self, slurmrestd_url: str) -> None:
        self.spoil: Callable[[Record], None] = lambda record: None
        self.url = ""
        self._slurmrestd_url = slurmrestd_url

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        """Serve on a free port until the block ends."""
        port = free_port()
        app = web.Application()
        async with aiohttp.ClientSession(self._slurmrestd_url, connector=SlurmrestdConnector(limit=16)) as http:

            async def relay(request: web.Request) -> web.Response:
                headers = {"X-SLURM-USER-TOKEN": request.headers["X-SLURM-USER-TOKEN"]}
                if request.can_read_body:
                    headers["Content-Type"] = "application/json"
                content = await request.read() or None
                async with http.request(request.method, request.rel_url, data=content, headers=headers) as answer:
                    body = self._spoiled(await answer.read()) if answer.status == 200 else await answer.read()
                    return web.Response(status=answer.status, body=body, content_type="application/json")

            app.router.add_route("*", "/{path:.*}", relay)
            runner = web.AppRunner(app)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", port).start()
            self.url = f"http://127.0.0.1:{port}"
            try:
                yield
            finally:
                await runner.cleanup()

    def _spoiled(self, body: bytes) -> bytes:
        content = json.loads(body)
        for field in ("jobs", "nodes"):
            for record in content.get(field) or ():
                if isinstance(record, dict):
                    self.spoil(record)
        if "statistics" in content:
            self.spoil(content["statistics"])
        return json.dumps(content).encode()
