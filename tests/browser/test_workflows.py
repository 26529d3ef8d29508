"""Workflows: a run whose step fails, seen live, resumed and cancelled; and a schedule."""

import re

from browser.accessibility import violations
from browser.conftest import Person
from browser.people import Member
from browser.playwright_api import Page, expect

CHAIN = """format: clusterra/1
id: browser-chain
name: <b>chain</b>
description: The second step fails when it is tried first.
tools: [bash]
kind: workflow
steps:
  - {step_id: get, template_id: shell, param_overrides: {commands: "true"}, depends_on: []}
  - step_id: align
    template_id: shell
    param_overrides: {commands: "mkdir tried-{{ ctx.workflow_run_id }} && exit 3 || echo aligned"}
    depends_on: [get]
  - {step_id: report, template_id: shell, param_overrides: {commands: "true"}, depends_on: [align]}
"""
IS_SUNKEN = """(text) => {
  const editor = text.closest(".cm-editor");
  const colour = (of) => getComputedStyle(of).backgroundColor;
  return colour(editor) === colour(editor.querySelector(".cm-gutters"));
}"""
"""Whether an editor looks as what cannot be written in: its text has the colour of its margin."""
STEPS, ATTEMPT = ("get", "align", "report"), 6
"""The steps, and where their table has the attempt."""
VERSION = "/v1/templates/browser-chain/versions/1"


async def publish(admin: Member) -> None:
    asked = {"/v1/templates": {"definition": CHAIN}, f"{VERSION}/review": {"approve": True}, f"{VERSION}/publish": {}}
    for path, body in asked.items():
        async with admin.user.session.post(path, json=body) as answer:
            assert answer.status < 300, await answer.text()


async def test_a_run_that_failed_is_resumed_and_its_page_follows_to_its_end(person: Person) -> None:
    await publish(await person("ada"))
    page = (await person("grace")).page
    await page.goto("/c/main/workflows")
    await expect(page.get_by_role("heading", name="No workflows yet")).to_be_visible()
    await page.get_by_role("button", name="Start a workflow").first.click()
    await page.get_by_role("dialog").get_by_role("link", name="<b>chain</b>").click()
    for step in STEPS:
        script = page.get_by_role("textbox", name=f"Script of step {step}", exact=True)
        await expect(script).to_have_attribute("aria-readonly", "true")
        assert await script.evaluate(IS_SUNKEN)
    await expect(page.get_by_text("Read-only: it follows from the values.")).to_have_count(len(STEPS))
    await page.get_by_role("button", name=re.compile("^Start the workflow · at most .* USD · ")).click()

    await expect(page.get_by_role("link", name="align, Failed")).to_be_visible()
    await expect(page.get_by_role("link", name="report, Cancelled")).to_be_visible()
    assert await violations(page) == []
    await page.get_by_role("button", name="Resume").dblclick()

    await expect(page.get_by_role("link", name="report, Done")).to_be_visible()
    attempts = [await page.get_by_role("row", name=name).get_by_role("cell").all_inner_texts() for name in STEPS]
    assert [cells[ATTEMPT] for cells in attempts] == ["1", "2", "2"]
    await expect(page.get_by_role("button", name="Resume")).to_have_count(0)
    await expect(page.get_by_text(re.compile(r"^Cost: .*\d USD"))).to_be_visible()

    run = page.url
    await page.goto("/c/main/activity?kinds=%5B%22run%22%5D")
    ends = page.get_by_role("row").filter(has=page.get_by_role("link", name="<b>chain</b>", exact=True))
    await expect(ends.filter(has_text="run.completed")).to_contain_text("3 completed")
    await expect(ends.filter(has_text="run.failed")).to_contain_text("Step align failed")
    assert await violations(page) == []
    await ends.filter(has_text="run.completed").get_by_role("link").click()
    await expect(page).to_have_url(run)


async def test_the_list_of_runs_follows_one_that_is_started_elsewhere(person: Person) -> None:
    grace = await person("grace")
    await grace.page.goto("/c/main/workflows")
    await expect(grace.page.get_by_role("button", name="Start a workflow").first).to_be_visible()
    step = {"step_id": "only", "script": "#!/bin/sh\ntrue\n", "job": {"environment": ["PATH=/usr/bin:/bin"]}}

    async with grace.user.session.post(
        "/v1/clusters/main/runs", json={"run_name": "from elsewhere", "steps": [step]}
    ) as answer:
        assert answer.status == 201, await answer.text()

    await expect(grace.page.get_by_role("row", name="from elsewhere")).to_contain_text("Done")


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
    await _choose(page, "Delete")
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("heading", name="No schedules yet")).to_be_visible()


async def test_a_schedule_is_paused_run_and_edited(person: Person) -> None:
    grace = await person("grace")
    page = grace.page
    await page.goto("/c/main/workflows/schedules?template=shell")
    form = page.get_by_role("dialog")
    await form.get_by_role("textbox", name="Name").fill("every morning")
    await form.get_by_role("textbox", name="commands").fill("date")
    await form.get_by_role("button", name="Create").click()
    row = page.get_by_role("row", name="every morning")
    await expect(row).to_have_count(1)

    await _choose(page, "Pause")
    await expect(row).to_contain_text("Paused")
    await expect(page.get_by_role("status").filter(has_text="is paused")).to_be_visible()
    await _choose(page, "Run now")
    await page.get_by_role("dialog").get_by_role("button", name="Run now").dblclick()
    await expect(row.get_by_role("link", name="Job")).to_be_visible()
    await _choose(page, "Edit")
    await expect(form.get_by_role("textbox", name="commands")).to_have_value("date")
    await expect(form.get_by_role("textbox", name="Name")).to_have_value("every morning")
    assert await violations(page) == []
    await form.get_by_role("textbox", name="Times").fill("0 7 * * *")
    await form.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(row).to_contain_text("0 7 * * *")
    await expect(row).to_contain_text("Paused")
    await _choose(page, "Resume")
    await expect(row).not_to_contain_text("Paused")
    await _choose(page, "Delete")
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("heading", name="No schedules yet")).to_be_visible()


async def _choose(page: Page, act: str) -> None:
    await page.get_by_role("button", name="Actions for every morning").click()
    await page.get_by_role("menuitem", name=act).click()
