"""Workflows: a run whose step fails, seen live, resumed and cancelled; and a schedule."""

from clusterra_lab.stack.stack import Stack

from browser.accessibility import violations
from browser.conftest import Person
from browser.pictures import picture
from browser.playwright_api import expect

JOB = {"environment": ["PATH=/usr/bin:/bin"]}


ATTEMPT = 6
"""The column of attempts in the table of steps."""


async def test_a_run_that_failed_is_resumed_and_its_page_follows(lab: Stack, person: Person) -> None:
    grace = await person("grace")
    page = grace.page
    steps = [
        {"step_id": "get", "script": "#!/bin/sh\nexit 0", "job": JOB},
        {"step_id": "align", "script": "#!/bin/sh\nexit 3", "job": JOB, "depends_on": ["get"]},
        {"step_id": "report", "script": "#!/bin/sh\nexit 0", "job": JOB, "depends_on": ["align"]},
    ]
    await page.goto("/c/main/workflows")
    await expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
    made = await page.request.post(
        "/v1/clusters/main/runs",
        data={"run_name": "<b>nightly</b>", "steps": steps},
        headers={"Origin": lab.gateway_url},
    )
    assert made.status == 201

    await page.get_by_role("link", name="<b>nightly</b>").click()
    await expect(page.get_by_role("link", name="align, Failed")).to_be_visible()
    await expect(page.get_by_role("link", name="report, Cancelled")).to_be_visible()
    assert await violations(page) == []
    await picture(page, "workflow")
    await page.get_by_role("button", name="Resume").dblclick()

    align = page.get_by_role("row").filter(has=page.get_by_role("cell", name="align", exact=True)).first
    await expect(align.get_by_role("cell").nth(ATTEMPT)).to_have_text("2")
    await expect(page.get_by_role("button", name="Resume")).to_be_visible()
    await expect(page.get_by_role("link", name="get, Done")).to_be_visible()


async def test_a_schedule_is_made_once_and_deleted(person: Person) -> None:
    grace = await person("grace")
    page = grace.page
    await page.goto("/c/main/workflows/schedules?template=shell")
    form = page.get_by_role("dialog")
    await form.get_by_role("textbox", name="Name").fill("every morning")
    await form.get_by_role("textbox", name="commands").fill("date")
    await form.get_by_role("textbox", name="Times").fill("* * * * *")
    await expect(form).to_contain_text("at least 5 minutes apart")
    await expect(form.get_by_role("button", name="Create")).to_be_disabled()
    await form.get_by_role("textbox", name="Times").fill("0 6 * * *")
    await expect(form.get_by_role("row")).to_have_count(4)
    await form.get_by_role("button", name="Create").dblclick()

    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page.get_by_role("row", name="every morning")).to_have_count(1)
    assert await violations(page) == []
    await page.get_by_role("button", name="Delete the schedule every morning").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("heading", name="No schedules yet")).to_be_visible()
