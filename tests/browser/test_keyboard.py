"""From the sign-in to a cancelled job with the keyboard alone, with the focus in sight all the way."""

import re

from clusterra_lab.stack.stack import Stack

from browser.conftest import Person
from browser.keyboard import go_to, press
from browser.people import Visitor
from browser.playwright_api import expect


async def test_a_job_is_submitted_watched_and_cancelled(lab: Stack, visitor: Visitor) -> None:
    page, button = visitor.page, visitor.page.get_by_role
    login = lab.oidc.logins["grace@acme.example"]
    visitor.guards.leave_to(lab.oidc.issuer)
    await page.goto("/c/main/submit")
    await press(page, button("link", name="Sign in", exact=True))
    await visitor.sign_in(login.subject, login.password_file.read_text().strip())
    await page.wait_for_url(f"{lab.gateway_url}/c/main/submit")

    editor = page.get_by_label("Script", exact=True)
    await go_to(page, editor)
    await page.keyboard.press("Control+End")
    await page.keyboard.type("\nsleep 600\n")
    await go_to(page, page.get_by_label("Name", exact=True))
    await page.keyboard.type("by-keyboard")
    await press(page, button("button", name=re.compile(r"^Submit ·")))
    await page.wait_for_url(re.compile(r"/c/main/jobs/[0-9]+$"))

    await expect(page.get_by_role("heading", level=1)).to_contain_text("by-keyboard")
    await expect(page.get_by_role("log")).to_contain_text("hello from slurm")
    await press(page, button("button", name="Cancel", exact=True))
    await press(page, page.get_by_role("dialog").get_by_role("button", name=re.compile("^Cancel")))
    await expect(page.get_by_role("main")).to_contain_text("Cancelled")
    await expect(page.get_by_role("list", name="Stages of the job")).to_contain_text("ended")
    # The button that was pressed is gone.
    await expect(page.get_by_role("heading", level=1)).to_be_focused()


async def test_a_job_is_held_and_released_with_the_focus_on_its_page(person: Person) -> None:
    grace = await person("grace")
    page, button = grace.page, grace.page.get_by_role
    job = (await grace.user.submit("#!/bin/sh\ntrue\n", {"time_limit": 5, "hold": True})).job_id
    await page.goto(f"/c/main/jobs/{job}")
    await button("button", name="Release", exact=True).press("Enter")
    await expect(page.get_by_role("list", name="Stages of the job")).to_contain_text("ended")
    await expect(page.get_by_role("heading", level=1)).to_be_focused()


async def test_the_focus_goes_back_to_what_opened_a_dialog(person: Person) -> None:
    grace = await person("grace")
    page = grace.page
    await page.goto("/c/main/jobs")
    views = page.get_by_role("button", name="Views")
    for key in ("?", "Control+k"):
        await views.focus()
        await page.keyboard.press(key)
        await expect(page.get_by_role("dialog")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await expect(views).to_be_focused()
