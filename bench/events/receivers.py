"""A process with the receivers of many webhooks: `python -m events.receivers`. Each has a path of its own."""

import re
import time
from collections.abc import Awaitable, Callable

from aiohttp import web
from pydantic import BaseModel

from events.load import Published, Told, serve, summary

NUMBER = re.compile(rb'"subject":"e(\d+)"')


class Receivers(BaseModel):
    """Where they listen."""

    port: int
    webhooks: int


async def run(load: Receivers, published: Callable[[], Awaitable[Published]]) -> Told:
    """Take everything."""
    arrived = dict[tuple[str, int], float]()

    async def take(request: web.Request) -> web.Response:
        at, found = time.monotonic(), NUMBER.search(await request.read())
        if found:
            arrived.setdefault((request.path, int(found[1])), at)
        return web.Response(status=204)

    app = web.Application()
    app.router.add_post("/{webhook}", take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", load.port).start()
    known = await published()
    await runner.cleanup()
    latencies = [at - known.at[number] for (_, number), at in arrived.items() if number < len(known.at)]
    return summary(latencies, load.webhooks * len(known.at))


if __name__ == "__main__":
    serve(Receivers, run)
