"""A receiver of webhooks on this machine: `/take` takes everything, `/refuse` answers 503."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from clusterra_lab.machine.ports import free_port


@asynccontextmanager
async def receiver() -> AsyncIterator[str]:
    """Its address, as long as the block is open."""

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(status=204 if request.path == "/take" else 503)

    app, port = web.Application(), free_port()
    app.router.add_post("/{path}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()
