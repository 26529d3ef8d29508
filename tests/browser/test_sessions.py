"""Sessions: one is started, can be opened, and says how it ended."""

import asyncio
import re
import secrets

from clusterra_lab.parts.user import User

from browser.accessibility import violations
from browser.conftest import Person
from browser.live_pages import JOB, SCRIPT, expect_states, opened, row_of
from browser.playwright_api import Route, expect

SESSIONS = "/c/main/sessions"
OF_LIST = re.compile(r"/v1/clusters/main/sessions$")


async def held(user: User) -> str:
    """Start a session by the API, whose job is held. Returns its id."""
    wanted = {"template_id": "jupyter", "params": {"cpus": 1, "memory_gib": 1}, "sbatch_override": {"hold": True}}
    headers = {"Idempotency-Key": secrets.token_hex(16)}
    async with user.session.post("/v1/clusters/main/sessions", json=wanted, headers=headers) as answer:
        assert answer.status == 201, await answer.text()
        return str((await answer.json())["job_id"])


async def test_a_session_is_started_once_and_says_how_it_ended(person: Person) -> None:
    grace = await person("grace")
    page = grace.page
    await page.goto("/c/main/sessions")
    await expect(page.get_by_role("heading", name="No sessions")).to_be_visible()
    assert await violations(page) == []

    await page.get_by_role("button", name="Start a session").click()
    form = page.get_by_role("dialog")
    await form.get_by_role("combobox", name="Template").click()
    await page.get_by_role("option", name="Jupyter").click()
    await form.get_by_role("textbox", name="cpus").fill("1")
    await form.get_by_role("textbox", name="memory_gib").fill("1")
    assert await violations(page) == []
    await expect(form.get_by_text("Cost per hour")).to_be_visible()
    await expect(form.get_by_text(re.compile(r"[0-9] USD$"))).to_have_count(2)
    await expect(form.get_by_text(re.compile("^starts? "))).to_be_visible()
    assert await violations(page) == []
    await form.get_by_role("button", name="Start").dblclick()

    await expect(page.get_by_role("link", name="Open Jupyter in a new tab")).to_have_attribute("rel", "noopener")
    # Workers of the lab have no JupyterLab, so the job ends at once: the page tells so without a reload.
    await expect(page.get_by_role("cell", name="Failed", exact=True)).to_have_count(1)
    await expect(page.get_by_role("cell", name="exit code 127")).to_be_visible()
    assert await violations(page) == []
    await page.get_by_role("link", name="Output of Jupyter").click()
    await expect(page.get_by_role("log")).to_contain_text("jupyter")


async def test_a_session_that_starts_while_the_list_is_read_is_seen_once(person: Person) -> None:
    ada = await person("ada")
    slow, other = ada.page, await ada.context.new_page()
    await opened(other, SESSIONS)
    read, shown = asyncio.Event(), asyncio.Event()
    reads: list[str] = []

    async def late(route: Route) -> None:
        reads.append(route.request.url)
        answer = await route.fetch()
        if len(reads) == 1:
            read.set()
            await shown.wait()
        await route.fulfill(response=answer)

    await slow.route(OF_LIST, late)
    await slow.goto(SESSIONS)
    async with asyncio.timeout(90):
        await read.wait()
    job_id = await held(ada.user)
    await expect(row_of(other, job_id)).to_have_count(1)
    await expect(row_of(slow, job_id)).to_have_count(0)
    shown.set()
    for page in (slow, other):
        await expect(row_of(page, job_id)).to_have_count(1)
        await expect(row_of(page, job_id)).to_contain_text("Waiting")
    of_start = len(reads)

    # Workers of the lab have no JupyterLab, so the job fails at once.
    async with ada.user.session.post(f"/v1/clusters/main/jobs/{job_id}/release") as released:
        assert released.status < 300, await released.text()
    for page in (slow, other):
        await expect(row_of(page, job_id)).to_contain_text("Failed")
        await expect(row_of(page, job_id)).to_contain_text("exit code 127")
        await expect(row_of(page, job_id)).to_have_count(1)

    assert of_start == 2, "the late reading, and one for the session that it lacked"
    assert len(reads) == of_start, "a session in the list is read alone"


async def test_other_jobs_do_not_have_the_sessions_read_again(person: Person) -> None:
    ada = await person("ada")
    jobs, name = await ada.context.new_page(), f"plain-{secrets.token_hex(4)}"
    await opened(ada.page, SESSIONS)
    await opened(jobs, "/c/main/jobs")
    reads: list[str] = []
    ada.page.on("request", lambda request: reads.append(request.url) if OF_LIST.search(request.url) else None)

    # The second one ends after what the events of the first would have asked for.
    for number in range(2):
        await ada.user.submit(SCRIPT, {"name": f"{name}-{number}", **JOB})
        await expect_states(jobs, {f"{name}-{number}": "Done"})

    assert reads == []
