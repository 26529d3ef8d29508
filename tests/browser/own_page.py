"""A page of a test's own in the browser, from a server on loopback, for what needs neither the console nor a lab."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import until

from browser.guards import Guards
from browser.playwright_api import WAIT_MILLISECONDS, Browser, Page

POLICY = (
    "default-src 'none'; script-src 'nonce-good'; worker-src 'self'; connect-src 'self' http://127.0.0.1:*;"
    " img-src * data:"
)
PAGE = """<!doctype html><html lang="en"><head><title>A page</title></head>
<body><main><h1 id="state">Loading</h1>{body}</main>
<script nonce="good">{script}
document.querySelector("#state").textContent = "Ready";</script></body></html>"""


@dataclass
class Site:
    """A page in the browser, from a server of this test, and its guards."""

    page: Page
    guards: Guards
    url: str
    body: str = ""
    script: str = ""
    worker: str = ""

    async def open(self, *, body: str = "", script: str = "") -> None:
        self.body, self.script = body, script
        await self.page.goto(self.url)

    async def first_problem(self) -> str:
        return (await until(self.guards.problems, seconds=90, what="a problem of the page"))[0]

    async def answer(self, request: web.Request) -> web.Response:
        match request.path:
            case "/":
                text = PAGE.format(body=self.body, script=self.script)
                headers = {"Content-Security-Policy": POLICY}
                return web.Response(text=text, content_type="text/html", headers=headers)
            case "/worker.js":
                return web.Response(text=self.worker, content_type="text/javascript")
            case "/v1/unavailable":
                return web.Response(status=503)
        return web.Response(status=404)


@asynccontextmanager
async def own_page(browser: Browser) -> AsyncIterator[Site]:
    """Serve a page, and watch it in the browser, until the block ends."""
    port = free_port()
    context = await browser.new_context()
    context.set_default_timeout(WAIT_MILLISECONDS)
    origin = f"http://127.0.0.1:{port}"
    guards = Guards({origin})
    await guards.watch(context)
    site = Site(await context.new_page(), guards, f"{origin}/")
    application = web.Application()
    application.router.add_get("/{path:.*}", site.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield site
    await context.close()
    await runner.cleanup()
