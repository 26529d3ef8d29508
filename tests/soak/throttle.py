"""A proxy before the emulator of DynamoDB, which can answer as a table whose capacity is used up."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import ClientSession, ClientTimeout, web
from clusterra_lab.machine.ports import free_port

_REFUSED = (
    b'{"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",'
    b' "message": "The level of configured provisioned throughput for the table was exceeded."}'
)
_HOP = {"transfer-encoding", "content-length", "connection", "host", "content-encoding"}


@dataclass
class Throttle:
    """Passes requests on. `share` of those to DynamoDB are refused meanwhile."""

    url: str
    upstream: str
    share: float = 0.0
    refused: int = 0
    passed: int = 0

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one request."""
        body = await request.read()
        if "DynamoDB" in request.headers.get("X-Amz-Target", "") and random.random() < self.share:
            self.refused += 1
            return web.Response(status=400, body=_REFUSED, content_type="application/x-amz-json-1.0")
        self.passed += 1
        session: ClientSession = request.app[_SESSION]
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP - {"host"}}
        async with session.request(
            request.method, f"{self.upstream}{request.raw_path}", data=body, headers=headers
        ) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
            return web.Response(status=answer.status, body=await answer.read(), headers=kept)


_SESSION = web.AppKey("session", ClientSession)


@asynccontextmanager
async def throttle(upstream: str) -> AsyncIterator[Throttle]:
    """Serve on a free port of this machine until the block ends."""
    port = free_port()
    serving = Throttle(f"http://127.0.0.1:{port}", upstream)
    app = web.Application(client_max_size=64 * 1024**2)
    app.router.add_route("*", "/{path:.*}", serving.handle)
    async with ClientSession(timeout=ClientTimeout(total=60), auto_decompress=False) as session:
        app[_SESSION] = session
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            yield serving
        finally:
            await runner.cleanup()
