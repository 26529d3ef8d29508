"""What the page of the fleet tells of workers and decisions, live, and where it leads."""

import asyncio
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from clusterra_lab.machine.process import until
from clusterra_lab.stack.stack import Stack

from browser.accessibility import violations
from browser.conftest import Person
from browser.keyboard import go_to
from browser.playwright_api import expect

FLEET = "/c/main/fleet"
JOB = {"name": "fleet-journey", "time_limit": 5}


async def test_a_job_s_worker_and_its_decision_appear_without_a_reload(lab: Stack, person: Person) -> None:
    ada = await person("ada")
    await ada.page.goto(FLEET)
    await expect(ada.page.get_by_role("list", name="Health of the cluster")).to_contain_text("Connected")
    await expect(ada.page.get_by_text("Live").first).to_be_visible()
    await expect(ada.page.get_by_label("Loading")).to_have_count(0)

    job = await ada.user.submit("#!/bin/bash\nsleep 60\n", JOB)

    decisions = ada.page.get_by_role("table", name="Decisions", exact=True)
    await expect(decisions.get_by_text(f"for pending job {job.job_id}")).to_be_visible()
    workers = ada.page.get_by_role("table", name="Workers", exact=True)
    await expect(workers.get_by_role("link", name=job.job_id, exact=True)).to_be_visible()
    await expect(workers.get_by_text("Busy")).to_be_visible()

    # By keyboard alone, from the list of decisions to the job that it was for.
    row = decisions.get_by_role("row").filter(has_text=f"for pending job {job.job_id}")
    await row.get_by_role("button").focus()
    await ada.page.keyboard.press("Enter")
    decision = ada.page.get_by_role("dialog")
    await expect(decision.get_by_text(f"for pending job {job.job_id}")).to_be_visible()
    await expect(decision.get_by_role("heading", name="Shapes compared with")).to_be_visible()
    await expect(decision.get_by_text("Chosen")).to_be_visible()
    assert await violations(ada.page) == []
    await decision.get_by_label("Maximum workers").fill("0")
    await decision.get_by_role("button", name="Compare").click()
    await expect(decision.get_by_text("With the queue of decision")).to_be_visible()
    await expect(decision.get_by_role("columnheader", name="Policy at that time")).to_be_visible()
    await decision.get_by_text("From the current queue").click()
    await decision.get_by_role("button", name="Compare").click()
    await expect(decision.get_by_text("With the queue as of")).to_be_visible()
    await decision.get_by_role("link", name=job.job_id, exact=True).first.click()
    await ada.page.wait_for_url(f"**/c/main/jobs/{job.job_id}")


async def test_the_time_of_workers_divides_by_hour(person: Person) -> None:
    ada = await person("ada")
    job = await ada.user.submit("#!/bin/sh\n", {**JOB, "name": "fleet-hours"})

    async def is_done() -> bool:
        return (await ada.user.job(job.job_id)).state == "COMPLETED"

    await until(is_done, seconds=90, what="the job to end", every=0.2)
    await ada.page.goto(FLEET)

    hours = ada.page.get_by_role("region", name="Time of workers by hour")

    async def is_told() -> bool:
        async with ada.page.expect_response(re.compile("/fleet/hours$")) as read:
            await hours.get_by_role("button", name="Refresh shares").click()
        assert (await read.value).ok
        shares = hours.get_by_text(re.compile(r"^Last 48 hours: jobs \d+%, booting \d+%, idle \d+%$"))
        return int(await shares.count()) == 1

    # The answer to somebody who asked just before has no workers yet.
    await until(is_told, seconds=90, what="the shares of the last 48 hours", every=0.5)
    assert await violations(ada.page) == []


async def test_a_job_leads_to_the_decision_that_bought_its_worker(lab: Stack, person: Person) -> None:
    ada = await person("ada")
    job = await ada.user.submit("#!/bin/bash\nsleep 5\n", {**JOB, "cpus_per_task": 4})
    page = ada.page
    await page.goto(f"/c/main/jobs/{job.job_id}")
    bought = page.get_by_role("region", name="Scheduling").get_by_role("listitem").filter(has_text="Decision")
    # Also when it has ended, and whatever was decided since.
    await expect(page.get_by_role("list", name="Stages of the job")).to_contain_text("ended")
    await expect(bought).to_contain_text(f"for pending job {job.job_id}")
    # The shapes that were not taken are told after the job's end, while the event is archived.
    scheduling = page.get_by_role("region", name="Scheduling")
    await expect(scheduling.get_by_role("heading", name="Shapes compared when its workers were bought")).to_be_visible()
    await expect(scheduling.get_by_role("table").get_by_role("row").filter(has_text="Chosen")).to_have_count(1)
    await expect(scheduling.get_by_role("table").get_by_role("row").nth(2)).to_be_visible()

    await bought.get_by_role("link").click()

    await page.wait_for_url("**/c/main/fleet?moment=*")
    await expect(page.get_by_role("dialog").get_by_text(f"for pending job {job.job_id}")).to_be_visible()


async def test_the_decision_of_a_moment_is_a_link(lab: Stack, person: Person) -> None:
    ada = await person("ada")
    await ada.user.submit("#!/bin/bash\nsleep 20\n", JOB)
    await ada.page.goto(f"{FLEET}?range=24h")
    decisions = ada.page.get_by_role("table", name="Decisions", exact=True)
    await decisions.get_by_role("button").first.click()
    await expect(ada.page.get_by_role("dialog")).to_be_visible()
    address = ada.page.url
    assert {"moment", "range"} <= set(parse_qs(urlsplit(address).query)), address

    await ada.page.goto(address)

    await expect(ada.page.get_by_role("dialog").get_by_role("table").first).to_be_visible()
    await ada.page.keyboard.press("Escape")
    await expect(ada.page.get_by_role("dialog")).to_have_count(0)
    assert "moment=" not in ada.page.url


async def test_a_member_opens_the_decision_of_a_moment_of_the_chart_by_keys(person: Person) -> None:
    grace = await person("grace")
    page = grace.page
    await grace.user.submit("#!/bin/bash\nsleep 5\n", JOB)
    await page.goto(FLEET)
    moments = page.get_by_role("slider", name="Live workers by shape in the last 1 hour")
    await go_to(page, moments)
    await expect(moments).to_have_accessible_description(re.compile("arrow keys"))
    await page.keyboard.press("Home")
    await expect(moments).to_have_attribute("aria-valuenow", "0")
    await expect(moments).to_have_attribute(
        "aria-valuetext", re.compile(r"^\d+:\d+:\d+ .*UTC, .*Desired, all shapes (\d+|not known)$")
    )

    async def goes_back() -> bool:
        await page.keyboard.press("End")
        end = int(await moments.get_attribute("aria-valuenow") or 0)
        await page.keyboard.press("ArrowLeft")
        return int(await moments.get_attribute("aria-valuenow") or 0) == end - 1

    # Again where the chart got another moment between the keys.
    await until(goes_back, seconds=30, what="the key to lead to the moment before the last", every=0.2)
    assert await violations(page) == []

    await page.keyboard.press("Enter")

    await page.wait_for_url("**/c/main/fleet?moment=*")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(moments).to_be_focused()


async def test_the_chart_has_its_numbers_as_a_table(lab: Stack, person: Person) -> None:
    ada = await person("ada")
    await ada.page.goto(FLEET)
    live = ada.page.get_by_role("figure", name=re.compile("^Live workers by shape"))
    await live.get_by_text("Show as a table").click()

    table = ada.page.get_by_role("table", name="Live workers by shape in the last 1 hour")
    await expect(table.get_by_role("columnheader", name="Desired, all shapes")).to_be_visible()


async def test_the_costs_by_use_have_their_numbers_as_a_table(lab: Stack, person: Person) -> None:
    ada = await person("ada")
    await ada.user.submit("#!/bin/bash\nsleep 5\n", JOB)
    await ada.page.goto(FLEET)
    section = ada.page.get_by_role("region", name="Cost of workers by use")
    numbers = section.get_by_text("Show as a table")

    async def reads_again_until_something_was_paid() -> None:
        while not await numbers.is_visible():
            again = section.get_by_role("button", name="Refresh costs")
            await again.click()
            await expect(again).to_be_enabled()

    async with asyncio.timeout(90):
        await reads_again_until_something_was_paid()

    await expect(section.get_by_text("Last 30 days: jobs")).to_be_visible()
    await numbers.click()
    heads = section.get_by_role("table").get_by_role("columnheader")
    await expect(heads.filter(has_text="Jobs").or_(heads.filter(has_text="workers")).first).to_be_visible()
    assert await violations(ada.page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_everybody_can_use_the_page(lab: Stack, person: Person, theme: str) -> None:
    ada = await person("ada")
    await ada.page.emulate_media(color_scheme=theme)
    await ada.page.goto(FLEET)
    await expect(ada.page.get_by_role("table", name="Decisions", exact=True)).to_be_visible()
    await expect(ada.page.get_by_label("Loading")).to_have_count(0)

    assert await violations(ada.page) == []


async def test_a_member_is_told_why_decisions_are_not_shown(lab: Stack, person: Person) -> None:
    grace = await person("grace")
    await grace.page.goto(FLEET)

    await expect(grace.page.get_by_text("Only admins see decisions")).to_be_visible()
