"""The guards of all journeys see what a page does wrong, and nothing else."""

import pytest
from clusterra_lab.machine.process import until

from browser.guards import MAX_PROBLEMS
from browser.own_page import Site
from browser.playwright_api import expect


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
        ("", 'fetch("/v1/unavailable");', "HTTP 503: "),
        ("", 'fetch("/assets/missing.js");', "HTTP 404: "),
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
    site.guards.expect(r"HTTP 503: .*/v1/unavailable")
    announced = site.guards.problems()

    async with site.page.expect_response("**/v1/unavailable"):
        await site.open(script='fetch("/v1/unavailable");')
    await until(lambda: not site.guards.problems(), seconds=90, what="the announced answer")

    assert announced == ["announced, but did not come: HTTP 503: .*/v1/unavailable"]


async def test_a_page_in_a_loop_does_not_fill_the_memory(site: Site) -> None:
    await site.open(script=f'for (let i = 0; i < {2 * MAX_PROBLEMS}; i++) console.error("again");')
    await expect(site.page.get_by_role("heading", name="Ready")).to_be_visible()
    await until(lambda: len(site.guards.problems()) >= MAX_PROBLEMS, seconds=90, what="the errors")

    assert len(site.guards.problems()) == MAX_PROBLEMS


async def test_a_person_may_go_where_the_test_says_and_what_happens_there_is_not_judged(site: Site) -> None:
    other = site.url.replace("127.0.0.1", "localhost").rstrip("/")
    site.guards.leave_to(other)
    site.script = 'console.error("not ours"); fetch("http://127.0.0.1:9/").catch(() => 0); throw new Error("not ours");'

    await site.page.goto(other)
    await site.open(script='console.error("ours");')

    assert [await site.first_problem()] == site.guards.problems() == ["console: ours"]


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ('fetch("http://127.0.0.1:9/").catch(() => 0);', "foreign request: http://127.0.0.1:9/"),
        ('fetch("/v1/unavailable");', "HTTP 503: "),
        ('console.error("it broke");', "console: it broke"),
        ('setTimeout(() => { throw new Error("it broke later"); });', "uncaught: Error: it broke later"),
    ],
)
@pytest.mark.parametrize("kind", ["SharedWorker", "Worker"])
async def test_a_worker_that_does_wrong_is_told(site: Site, kind: str, script: str, told: str) -> None:
    # Again and again, because guards see a shared worker from a moment after its start.
    connect = "onconnect = ({ ports: [port] }) => { port.onmessage = act; };"
    site.worker = f"const act = () => {{ {script} }}; onmessage = act; {connect}"
    again = "setInterval(() => (worker.port ?? worker).postMessage(0), 100);"

    await site.open(script=f'const worker = new {kind}("/worker.js"); {again}')

    await until(lambda: any(line.startswith(told) for line in site.guards.problems()), seconds=90, what=told)
