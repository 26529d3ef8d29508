"""Saved views in the browser: filters are saved under a name, picked on a new page, and deleted."""

import re

from browser.accessibility import violations
from browser.conftest import Person
from browser.playwright_api import expect

VIEW = "waiting \u202e of mine"


async def test_filters_are_saved_picked_and_deleted(person: Person) -> None:
    ada = await person("ada")
    page = ada.page
    await page.goto(f"/c/{ada.user.cluster}/jobs?find=nothing-has-this-name&sort=name")
    await page.get_by_role("button", name="Views").click()
    await page.get_by_label("Name of the new view").fill(VIEW)
    await page.get_by_role("button", name="Save view").dblclick()
    await expect(page.get_by_role("button", name="waiting ⟨202e⟩ of mine", exact=True)).to_have_count(1)
    assert not await violations(page)

    # It is this page's, and the person's.
    await page.goto(f"/c/{ada.user.cluster}/activity?subject=1")
    await page.get_by_role("button", name="Views").click()
    await expect(page.get_by_text("No views are saved for this page")).to_be_visible()
    grace = await person("grace")
    await grace.page.goto(f"/c/{grace.user.cluster}/jobs")
    await grace.page.get_by_role("button", name="Views").click()
    await expect(grace.page.get_by_text("No views are saved for this page")).to_be_visible()

    await page.goto(f"/c/{ada.user.cluster}/jobs")
    await page.get_by_role("button", name="Views").click()
    await page.get_by_role("button", name="waiting ⟨202e⟩ of mine", exact=True).click()
    await expect(page).to_have_url(re.compile(r"\?find=nothing-has-this-name&sort=name$"))
    await expect(page.get_by_label("Name or job ID")).to_have_value("nothing-has-this-name")

    await page.get_by_role("button", name="Views").click()
    await page.get_by_role("button", name="Delete the view waiting").click()
    await expect(page.get_by_role("button", name="Delete the view waiting")).to_have_count(0)
