"""Nobody sees what is not theirs: of another tenant, of another person, or of who used the browser before."""

import re
import secrets
from collections.abc import AsyncIterator

import pytest
from clusterra_lab.parts.user import SubmittedJob
from clusterra_lab.stack.stack import Stack
from staged_files import uploaded

from browser.conftest import Person
from browser.live_pages import JOB, SCRIPT, expect_states, opened, row_of
from browser.playwright_api import expect
from browser.settled import settling

SECRET = f"secret-{secrets.token_hex(4)}"
NO_SUCH = re.compile(r"there is no|no such|not found|does not exist", re.IGNORECASE)
"""How pages and answers say that there is nothing, whether or not there is."""


@pytest.fixture(scope="module")
async def job(lab: Stack) -> AsyncIterator[SubmittedJob]:
    """A job and a file of ada, which have SECRET in their names."""
    async with lab.user("ada@acme.example") as ada:
        submitted = await ada.submit(f"{SCRIPT}# {SECRET}\n", {"name": SECRET, "hold": True, **JOB})
        await uploaded(lab, ada, f"data/{SECRET}.txt", SECRET.encode())
        yield submitted
        await ada.cancel(submitted.job_id)


@pytest.mark.parametrize(
    "path",
    [
        "/c/main",
        "/c/main/jobs",
        "/c/main/jobs/{job}",
        "/c/main/files",
        "/c/main/activity",
        "/c/main/costs",
        "/c/main/fleet",
    ],
)
async def test_pages_of_another_tenant_do_not_exist(person: Person, job: SubmittedJob, path: str) -> None:
    eve = await person("eve@globex.example")

    async with settling(eve.page):
        await eve.page.goto(path.format(job=job.job_id))
        await expect(eve.page.get_by_text(NO_SUCH).first).to_be_visible()

    assert SECRET not in await eve.page.content()
    assert "Acme" not in await eve.page.get_by_role("banner").inner_text()


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/jobs",
        "/jobs/{job}",
        "/jobs/{job}/output",
        "/jobs/{job}/output/stream",
        "/events",
        "/events/stream",
        "/files",
    ],
)
async def test_addresses_of_another_tenant_do_not_exist(person: Person, job: SubmittedJob, path: str) -> None:
    eve = await person("eve@globex.example")

    answer = await eve.page.goto(f"/v1/clusters/main{path.format(job=job.job_id)}")

    assert answer.status == 404
    assert SECRET not in await answer.text()


async def test_a_job_of_another_person_does_not_exist(person: Person, job: SubmittedJob) -> None:
    grace = await person("grace")
    statuses: list[int] = []
    grace.context.on(
        "response", lambda answer: statuses.append(answer.status) if "/v1/clusters/main/jobs/" in answer.url else None
    )

    async with settling(grace.page):
        await grace.page.goto(f"/c/main/jobs/{job.job_id}")
        await expect(grace.page.get_by_role("main").get_by_text(NO_SUCH).first).to_be_visible()

    assert SECRET not in await grace.page.content()
    assert set(statuses) == {404}


async def test_lists_of_another_person_have_nothing_of_it(person: Person, job: SubmittedJob) -> None:
    grace = await person("grace")

    for path in ("/c/main", "/c/main/jobs", "/c/main/activity"):
        await opened(grace.page, path)
        assert SECRET not in await grace.page.content(), path


async def test_who_signs_in_next_sees_nothing_of_who_was_before(lab: Stack, person: Person, job: SubmittedJob) -> None:
    ada, grace = await person("ada"), await person("grace")
    await opened(ada.page, "/c/main/jobs")
    await expect_states(ada.page, {SECRET: "Waiting"})
    other = await ada.context.new_page()
    await opened(other, f"/c/main/jobs/{job.job_id}")
    cookies = await grace.context.cookies(lab.gateway_url)

    await ada.page.get_by_role("banner").get_by_role("button", name=re.compile("Ada")).click()
    await ada.page.get_by_role("menuitem", name="Sign out").click()
    for page in (ada.page, other):
        await expect(page).to_have_url(re.compile("/sign-in"))
    await ada.context.add_cookies(cookies)
    await opened(ada.page, "/c/main/jobs")

    await expect(row_of(ada.page, SECRET)).to_have_count(0)
    async with settling(ada.page):
        await ada.page.go_back()
    assert SECRET not in await ada.page.content()
    kept = await ada.page.evaluate("() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }])")
    assert SECRET not in kept
    await opened(other, "/c/main/jobs")
    assert SECRET not in await other.content()


async def test_another_person_who_signs_in_beside_takes_over_all_tabs(
    lab: Stack, person: Person, job: SubmittedJob
) -> None:
    ada, grace = await person("ada"), await person("grace")
    await opened(ada.page, "/c/main/jobs")
    await expect_states(ada.page, {SECRET: "Waiting"})

    await ada.context.clear_cookies()
    await ada.context.add_cookies(await grace.context.cookies(lab.gateway_url))
    beside = await ada.context.new_page()
    await opened(beside, "/c/main/jobs")

    await expect(row_of(beside, SECRET)).to_have_count(0)
    await expect(row_of(ada.page, SECRET)).to_have_count(0)
