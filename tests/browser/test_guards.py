"""The guards of all journeys see what a page does wrong, and nothing else."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from aiohttp import web
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import until

from browser.accessibility import violations
from browser.guards import MAX_PROBLEMS, Guards
from browser.playwright_api import WAIT_MILLISECONDS, Browser, Page, expect

POLICY = "default-src 'none'; script-src 'nonce-good'; connect-src 'self' http://127.0.0.1:*; img-src * data:"
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
            case "/v1/unavailable":
                return web.Response(status=503)
        return web.Response(status=404)


@pytest.fixture
async def site(browser: Browser) -> AsyncIterator[Site]:
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


async def test_a_page_that_works_has_no_problem(site: Site) -> None:
    await site.open(
        body='<img alt="" src="data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=">',
        script='console.warn("only a warning"); fetch("/v1/unknown");',
    )
    await expect(site.page.get_by_role("heading", name="Ready")).to_be_visible()

    assert site.guards.problems() == []


@pytest.mark.parametrize(
    ("body", "script", "told"),
    [
        ('<img alt="" src="http://127.0.0.1:9/pixel.gif">', "", "foreign request: http://127.0.0.1:9/pixel.gif"),
        ("", 'fetch("http://127.0.0.1:9/").catch(() => 0);', "foreign request: http://127.0.0.1:9/"),
        ("", 'console.error("it broke");', "console: it broke"),
        ("", 'setTimeout(() => { throw new Error("it broke later"); });', "uncaught: Error: it broke later"),
        ("", 'Promise.reject(new Error("nobody awaits"));', "uncaught: Error: nobody awaits"),
        ("", 'fetch("/v1/unavailable");', "HTTP 503: GET "),
        ("", 'fetch("/assets/missing.js");', "HTTP 404: GET "),
    ],
)
async def test_a_page_that_does_wrong_is_told(site: Site, body: str, script: str, told: str) -> None:
    await site.open(body=body, script=script)

    assert (await site.first_problem()).startswith(told)


@pytest.mark.parametrize(
    "body",
    ["<script>document.title = 'inline'</script>", '<p style="color: red">inline</p>', '<iframe src="/"></iframe>'],
)
async def test_a_page_that_breaks_its_policy_is_told(site: Site, body: str) -> None:
    await site.open(body=body)

    def told() -> bool:
        return any(line.startswith("console: CSP: ") for line in site.guards.problems())

    await until(told, seconds=90, what="the broken rule")


async def test_a_web_socket_to_another_origin_is_told(site: Site) -> None:
    await site.open(script='try { new WebSocket("ws://localhost:9/"); } catch {}')

    assert "localhost:9" in await site.first_problem()


async def test_what_a_test_announces_is_no_problem(site: Site) -> None:
    site.guards.expect(r"HTTP 503: GET .*/v1/unavailable")
    announced = site.guards.problems()

    async with site.page.expect_response("**/v1/unavailable"):
        await site.open(script='fetch("/v1/unavailable");')
    await until(lambda: not site.guards.problems(), seconds=90, what="the announced answer")

    assert announced == ["announced, but did not come: HTTP 503: GET .*/v1/unavailable"]


async def test_a_page_in_a_loop_does_not_fill_the_memory(site: Site) -> None:
    await site.open(script=f'for (let i = 0; i < {2 * MAX_PROBLEMS}; i++) console.error("again");')
    await expect(site.page.get_by_role("heading", name="Ready")).to_be_visible()
    await until(lambda: len(site.guards.problems()) >= MAX_PROBLEMS, seconds=90, what="the errors")

    assert len(site.guards.problems()) == MAX_PROBLEMS


async def test_a_page_that_few_can_use_has_violations(site: Site) -> None:
    await site.open(body='<img src="data:,"><input><button></button>')

    found = await violations(site.page)

    rules = {line.partition(":")[0] for line in found}
    assert {"image-alt", "label", "button-name"} <= rules, found


async def test_a_page_that_all_can_use_has_none(site: Site) -> None:
    await site.open(body='<label>Name <input></label><button type="button">Save</button>')

    assert await violations(site.page) == []


async def test_a_person_may_go_where_the_test_says_and_what_happens_there_is_not_judged(site: Site) -> None:
    other = site.url.replace("127.0.0.1", "localhost").rstrip("/")
    site.guards.leave_to(other)
    site.script = 'console.error("not ours"); fetch("http://127.0.0.1:9/").catch(() => 0); throw new Error("not ours");'

    await site.page.goto(other)
    await site.open(script='console.error("ours");')

    assert [await site.first_problem()] == site.guards.problems() == ["console: ours"]
