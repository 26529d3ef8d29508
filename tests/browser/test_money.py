"""What the pages of costs, budgets and quotas tell, who may change limits, and what leaves them as a file."""

import csv
import io
from pathlib import Path

import pytest
from clusterra_lab.stack.stack import Stack

from browser.accessibility import violations
from browser.conftest import Person
from browser.people import Member
from browser.playwright_api import expect

COSTS = "/c/main/costs"
LIMITS = f"{COSTS}?tab=limits"
JOB = {"name": "costs-journey", "time_limit": 5}


async def _has_paid(member: Member) -> str:
    """Run a job of the member until it costs something, and return its number."""
    job = await member.user.submit("#!/bin/bash\nsleep 2\n", JOB)
    await member.page.goto("/c/main/costs?by=job")
    link = member.page.get_by_role("link", name=f"{job.job_id} {JOB['name']}")
    again = member.page.get_by_role("button", name="Refresh")
    for _ in range(200):
        if await link.count():
            return job.job_id
        await again.click()
        await expect(again).to_be_enabled()
        await expect(again).to_be_focused()
    raise AssertionError("the job costs nothing")


async def test_a_row_leads_to_its_job_and_the_export_has_the_same_rows(lab: Stack, person: Person) -> None:
    ada = await person("ada")
    job_id = await _has_paid(ada)
    table = ada.page.get_by_role("table", name="Costs by job")
    await expect(table.get_by_text("Total")).to_be_visible()

    async with ada.page.expect_download() as waiting:
        await ada.page.get_by_role("link", name="CSV", exact=True).click()
    file = await (await waiting.value).path()
    rows = list(csv.DictReader(io.StringIO(Path(file).read_text())))
    assert job_id in {row["job_id"] for row in rows}, rows

    await table.get_by_role("link", name=f"{job_id} ").first.click()
    await ada.page.wait_for_url(f"**/c/main/jobs/{job_id}")


async def test_what_is_shown_is_in_the_address(lab: Stack, person: Person) -> None:
    ada = await person("ada")
    await ada.page.goto(f"{COSTS}?by=shape&from=2020-01-01&until=2020-01-31&sort=cost&descending=true")

    await expect(ada.page.get_by_text("No costs in this period").first).to_be_visible()
    await expect(ada.page.get_by_role("heading", name="Costs by shape")).to_be_visible()
    await ada.page.goto(f"{COSTS}?by=nonsense&from=soon&sort=7")
    await expect(ada.page.get_by_role("heading", name="Costs by user")).to_be_visible()


async def test_a_quota_is_set_changed_and_deleted_once(lab: Stack, person: Person) -> None:
    ada = await person("ada")
    await ada.page.goto(LIMITS)
    await ada.page.get_by_role("button", name="Set a quota").click()
    form = ada.page.get_by_role("dialog")
    await form.get_by_label("Name").fill("grace")
    await form.get_by_label("Monthly limit, USD").fill("12,5")
    await form.get_by_role("button", name="Set", exact=True).dblclick()

    quotas = ada.page.get_by_role("region", name="Quotas")
    await expect(quotas.get_by_role("heading", name="User grace")).to_have_count(1)
    await expect(quotas.get_by_text("12.50 USD").first).to_be_visible()

    grace = await person("grace")
    await grace.page.goto(LIMITS)
    await expect(grace.page.get_by_text("12.50 USD").first).to_be_visible()
    await expect(grace.page.get_by_role("button", name="Set a quota")).to_have_count(0)

    # Another page of hers follows by itself. Members are not told what admins set: they read again.
    other = await ada.context.new_page()
    await other.goto(LIMITS)
    await expect(other.get_by_text("12.50 USD").first).to_be_visible()
    await quotas.get_by_role("button", name="Change: grace").click()
    await form.get_by_label("Monthly limit, USD").fill("99")
    await form.get_by_role("button", name="Set", exact=True).click()
    await expect(other.get_by_text("99.00 USD").first).to_be_visible()
    await grace.page.get_by_role("button", name="Refresh").click()
    await expect(grace.page.get_by_text("99.00 USD").first).to_be_visible()

    await quotas.get_by_role("button", name="Delete: grace").click()
    await ada.page.get_by_role("button", name="Delete the quota").click()
    await expect(quotas.get_by_role("heading", name="User grace")).to_have_count(0)
    await expect(other.get_by_text("There are no quotas")).to_be_visible()


async def test_a_budget_has_thresholds(lab: Stack, person: Person) -> None:
    ada = await person("ada")
    await ada.page.goto(LIMITS)
    await ada.page.get_by_role("button", name="Set a budget").click()
    form = ada.page.get_by_role("dialog")
    await form.get_by_label("Name").fill("ada")
    await form.get_by_label("Monthly limit, USD").fill("0")
    await expect(form.get_by_text("Enter more than 0")).to_be_visible()
    await form.get_by_label("Monthly limit, USD").fill("100")
    await form.get_by_label("Percent").first.fill("55")
    assert await violations(ada.page) == []
    await form.get_by_role("button", name="Set", exact=True).click()

    budgets = ada.page.get_by_role("region", name="Budgets")
    await expect(budgets.get_by_text("55% of the limit by costs so far (not reached)")).to_be_visible()
    await budgets.get_by_role("button", name="Delete: ada").click()
    await ada.page.get_by_role("button", name="Delete the budget").click()
    await expect(budgets.get_by_text("There are no budgets")).to_be_visible()


async def test_home_tells_of_a_budget_that_is_used(lab: Stack, person: Person) -> None:
    ada = await person("ada")
    await _has_paid(ada)
    await ada.page.goto("/c/main")
    needs = ada.page.get_by_role("main").get_by_role("list")
    told = (
        needs.get_by_role("listitem").filter(has_text="User ada:").get_by_role("link", name="Costs have reached 100%")
    )
    await expect(ada.page.get_by_role("heading", name="Needs attention")).to_be_visible()
    await expect(told).to_have_count(0)

    budget = {"limit": "0.000001", "thresholds": [{"measure": "actual", "percent": 100}]}
    try:
        async with ada.user.session.put("/v1/budgets/user/ada", json=budget) as answer:
            assert answer.status == 200, await answer.text()
        # By the event: the page is not read again.
        await expect(told).to_be_visible(timeout=90_000)
        await expect(needs).to_contain_text("User ada:")
        assert await violations(ada.page) == []
        await told.click()
        await ada.page.wait_for_url(f"**{LIMITS}")
    finally:
        async with ada.user.session.delete("/v1/budgets/user/ada") as answer:
            assert answer.status == 204, await answer.text()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("tab", ["costs", "limits", "clusters"])
async def test_everybody_can_use_the_pages(lab: Stack, person: Person, theme: str, tab: str) -> None:
    ada = await person("ada")
    await ada.page.emulate_media(color_scheme=theme)
    await ada.page.goto(f"{COSTS}?tab={tab}")
    await expect(ada.page.get_by_role("tab", selected=True)).to_be_visible()
    await expect(ada.page.get_by_label("Loading")).to_have_count(0)

    assert await violations(ada.page) == []


async def test_a_member_is_told_that_costs_are_their_own(lab: Stack, person: Person) -> None:
    grace = await person("grace")
    await grace.page.goto(COSTS)

    await expect(grace.page.get_by_text("You see the costs of your own jobs.")).to_be_visible()
