"""Sessions: one is started, can be opened, and says how it ended."""

import re

from browser.accessibility import violations
from browser.conftest import Person
from browser.playwright_api import expect


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
