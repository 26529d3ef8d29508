"""The frame around all pages: the sign-in and the way back, the palette, the theme, and clusters that are not there."""

import re

import pytest
from clusterra_lab.stack.stack import Stack

from browser.accessibility import violations
from browser.conftest import Person
from browser.live_pages import JOB
from browser.people import Visitor, signed_in
from browser.playwright_api import Browser, expect

_NOTE_TEXTS = """(element) => {
  window.texts = [];
  const note = () => window.texts.push(element.textContent);
  new MutationObserver(note).observe(element, { subtree: true, childList: true, characterData: true });
}"""
"""Notes each text that an element has from now on."""
_ENGLISH_DATE = re.compile(r"^[A-Z][a-z]{2} \d{1,2}, \d{4}, \d{1,2}:\d\d:\d\d [AP]M ")


async def test_a_deep_link_survives_the_sign_in_and_a_sign_out_takes_other_tabs_along(
    lab: Stack, visitor: Visitor
) -> None:
    login = lab.oidc.logins["ada@acme.example"]
    visitor.guards.leave_to(lab.oidc.issuer)
    wanted = "/c/main/jobs?sort=name"

    await visitor.page.goto(wanted)
    await visitor.page.wait_for_url("**/sign-in?return_to=*")
    await visitor.page.get_by_role("link", name="Sign in").click()
    await visitor.sign_in(login.subject, login.password_file.read_text().strip())
    await visitor.page.wait_for_url(f"{lab.gateway_url}{wanted}")

    other = await visitor.context.new_page()
    await other.goto("/c/main/fleet")
    await expect(other.get_by_role("heading", name="Fleet", level=1)).to_be_visible()
    await visitor.page.evaluate("localStorage.setItem('clusterra:draft:ada', 'mine')")
    await visitor.page.get_by_role("button", name=", account").click()
    await visitor.page.get_by_role("menuitem", name="Sign out").click()

    await other.wait_for_url("**/sign-in?return_to=%2Fc%2Fmain%2Ffleet")
    await visitor.page.wait_for_url("**/sign-in")
    assert "mine" not in await other.evaluate("JSON.stringify(localStorage)")


async def test_a_sign_in_that_was_cancelled_says_so_and_leads_back(visitor: Visitor) -> None:
    visitor.guards.api_path = "/"

    await visitor.page.goto("/v1/auth/callback?error=access_denied&state=x")
    await expect(visitor.page.get_by_role("heading", name="You are not signed in")).to_be_visible()
    await visitor.page.get_by_role("link", name="Go to sign-in").click()

    await expect(visitor.page.get_by_role("heading", name="Sign in to Clusterra")).to_be_visible()


async def test_the_palette_goes_anywhere_by_keyboard_alone(person: Person) -> None:
    page = (await person("ada")).page
    await page.goto("/c/main/jobs")
    await expect(page.get_by_role("heading", level=1)).to_be_visible()

    await page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Search or go to")
    await expect(box).to_be_focused()
    await page.keyboard.type("flee")
    await expect(page.get_by_role("option", name="Fleet", selected=True)).to_be_visible()
    assert await violations(page) == []
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/c/main/fleet")

    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_the_palette_tells_of_jobs_as_all_pages_do_once_it_has_searched(person: Person) -> None:
    ada = await person("ada")
    job = (await ada.user.submit("#!/bin/sh\ntrue\n", {"name": "to-be-found", "hold": True, **JOB})).job_id
    page = ada.page
    await page.goto("/c/main/files")
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await page.keyboard.press("Control+k")
    dialog = page.get_by_role("dialog")
    told = dialog.get_by_role("status")
    await expect(told).to_have_text(re.compile(r"^\d+ results?$"))
    await told.evaluate(_NOTE_TEXTS)

    await page.keyboard.type("to-be-found")

    await expect(
        dialog.get_by_role("option", name=re.compile(rf"^to-be-found\s*#{job} · ada · Waiting$"))
    ).to_be_visible()
    await expect(told).to_have_text("1 result")
    assert await page.evaluate("() => window.texts.filter((each) => each === '0 results')") == []
    await ada.user.cancel(job)


async def test_another_page_begins_at_its_top(person: Person) -> None:
    page = (await person("ada")).page
    await page.set_viewport_size({"width": 1280, "height": 400})
    await page.goto("/c/main/costs")
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    main, top = page.get_by_role("main"), "(element) => element.scrollTop"
    await expect(page.get_by_label("Loading")).to_have_count(0)
    await main.evaluate("(element) => element.scrollTo(0, 100)")
    assert await main.evaluate(top) == 100
    await page.get_by_role("navigation", name="Pages").get_by_role("link", name="Fleet").click()
    heading = page.get_by_role("heading", name="Fleet", level=1)
    await expect(heading).to_be_focused()

    await expect(heading).to_be_in_viewport()
    assert await main.evaluate(top) == 0
    await expect(page.get_by_label("Loading")).to_have_count(0)

    # What is in the address of the same page moves nothing.
    period = page.get_by_role("radiogroup", name="Period").get_by_text("6 hours")
    await main.evaluate("(element) => element.scrollTo(0, 100)")
    await period.scroll_into_view_if_needed()
    before = await main.evaluate(top)
    await period.click()
    await page.wait_for_url("**/fleet?range=6h")
    assert before > 0
    assert await main.evaluate(top) == before


async def test_the_theme_is_kept(person: Person) -> None:
    page = (await person("grace")).page
    await page.goto("/c/main/jobs")

    await page.get_by_role("button", name=", account").click()
    await page.get_by_role("menuitemradio", name="Dark").click()
    await page.reload()

    await expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")


async def test_dates_are_in_the_language_of_the_texts_in_a_browser_of_another_one(browser: Browser, lab: Stack) -> None:
    async with signed_in(browser, lab, "ada@acme.example", locale="de-DE") as ada:
        await ada.user.submit("#!/bin/sh\ntrue\n", {"name": "dated", **JOB})

        await ada.page.goto("/c/main/jobs")

        await expect(ada.page.get_by_role("main").locator("time").first).to_have_attribute("title", _ENGLISH_DATE)


@pytest.mark.parametrize("cluster", ["no-such-cluster", "-"])
async def test_a_cluster_that_is_not_there_leads_to_those_that_are(person: Person, cluster: str) -> None:
    page = (await person("ada")).page

    await page.goto(f"/c/{cluster}/jobs")
    await page.get_by_role("main").get_by_role("link").first.click()

    await page.wait_for_url("**/c/main")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_pages_before_the_sign_in_are_for_everybody(visitor: Visitor, scheme: str) -> None:
    await visitor.page.emulate_media(color_scheme=scheme)
    for path in ("/sign-in?return_to=/c/main/jobs", "/invitation#incomplete"):
        await visitor.page.goto(path)
        await expect(visitor.page.get_by_role("heading", level=1)).to_be_visible()
        assert await violations(visitor.page) == []
