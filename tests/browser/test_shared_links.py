"""Shared links in the browser: an owner makes one, somebody without an account opens it, and it ends when revoked."""

from typing import Any

from clusterra_lab.stack.stack import Stack

from browser.accessibility import violations
from browser.conftest import Person
from browser.people import Member, Visitor
from browser.playwright_api import Context, Page, expect

JOB = {"time_limit": 5, "current_working_directory": "/mnt/efs"}


def _asked(context: Context) -> list[Any]:
    """All requests of the pages from now on."""
    requests: list[Any] = []
    context.on("request", lambda request: requests.append(request))
    return requests


async def _finished(member: Member, script: str, **job: object) -> str:
    job_id = (await member.user.submit(f"#!/bin/sh\n{script}\n", {**JOB, **job})).job_id
    await member.page.goto(f"/c/{member.user.cluster}/jobs/{job_id}")
    await expect(member.page.get_by_role("log")).to_contain_text("shared output")
    return job_id


async def _made(page: Page, name: str, *, script: bool = False) -> str:
    """Create a link to the job of the page that shows its output, and leave its list open."""
    await page.get_by_role("button", name="Share").click()
    await page.get_by_role("button", name="Create link").click()
    output = page.get_by_role("dialog").get_by_role("checkbox", name="Output")
    # Whoever uses the keyboard comes to what it shows, and not behind it.
    await expect(output).to_be_focused()
    await page.get_by_label("Name", exact=True).fill(name)
    await expect(output).not_to_be_checked()
    await expect(page.get_by_text("The output is shown as the job wrote it")).to_be_visible()
    await output.check()
    shown_script = page.get_by_role("dialog").get_by_role("checkbox", name="Script")
    await expect(shown_script).not_to_be_checked()
    await shown_script.set_checked(script)
    assert not await violations(page)
    await page.get_by_role("button", name="Create link").dblclick()
    address: str = await page.get_by_test_id("secret").input_value()
    await expect(page.get_by_text("Anyone with this address can see the job")).to_be_visible()
    made = page.get_by_role("dialog", name="New link to job")
    await expect(made.get_by_role("textbox", name="New link to job")).to_be_focused()
    await page.keyboard.press("Tab")
    await expect(made.get_by_role("button", name="Copy")).to_be_focused()
    assert not await violations(page)
    await page.get_by_role("button", name="I have copied it").click()
    await expect(page.get_by_role("button", name=f"Revoke {name}")).to_have_count(1)
    return address


async def test_a_link_shows_a_job_to_whoever_has_it_until_it_is_revoked(
    lab: Stack, person: Person, visitor: Visitor
) -> None:
    ada = await person("ada")
    asked_by_ada = _asked(ada.context)
    await _finished(ada, "echo shared output; exit 3", name="<b>shared</b>")
    address = await _made(ada.page, "for the review", script=True)
    secret = address.split("#")[1]
    assert address == f"{lab.gateway_url}/shared#{secret}"

    asked = _asked(visitor.context)
    page = visitor.page
    await page.goto(address)
    await expect(page.get_by_role("heading", level=1)).to_contain_text("<b>shared</b>")
    await expect(page.get_by_role("log")).to_contain_text("shared output")
    await expect(page.get_by_role("heading", name="It ended with exit code 3")).to_be_visible()
    await expect(page.get_by_text("Read-only, until")).to_be_visible()
    await expect(page.get_by_role("region", name="Script")).to_contain_text("echo shared output; exit 3")
    await expect(page).to_have_title("Shared job · Clusterra")
    assert await page.get_by_role("link").all_inner_texts() == ["Sign in"]
    assert not await violations(page)
    await page.reload()
    await expect(page.get_by_role("log")).to_contain_text("shared output")

    await ada.page.get_by_role("button", name="Revoke for the review").click()
    await ada.page.get_by_role("button", name="Revoke the link").dblclick()
    await expect(ada.page.get_by_text("There are no links to this job.")).to_be_visible()
    await page.get_by_role("button", name="Refresh").click()
    await expect(page.get_by_role("heading", name="This link does not work")).to_be_visible()
    await expect(page.get_by_role("log")).to_have_count(0)
    await expect(page.get_by_role("region", name="Script")).to_have_count(0)
    assert not await violations(page)

    # Playwright tells the address of a page with its fragment, which the browser does not send.
    sent = [each.url.split("#")[0] for each in [*asked, *asked_by_ada]]
    assert not [url for url in sent if "clk_" in url]
    assert not [each.headers for each in asked if "clk_" in each.headers.get("referer", "")]
    to_api = [each for each in asked if "/v1/" in each.url]
    assert {each.url.split("?")[0] for each in to_api} == {
        f"{lab.gateway_url}/v1/shared-job",
        f"{lab.gateway_url}/v1/shared-job/output",
        f"{lab.gateway_url}/v1/shared-job/script",
    }
    assert all(each.headers["authorization"] == f"Bearer {secret}" for each in to_api)


async def test_copying_a_link_says_whether_it_was_copied(person: Person) -> None:
    ada = await person("ada")
    await _finished(ada, "echo shared output", name="copied")
    page = ada.page
    await page.get_by_role("button", name="Share").click()
    await page.get_by_role("button", name="Create link").click()
    await page.get_by_role("button", name="Create link").click()
    made = page.get_by_role("dialog", name="New link to job")
    address = await made.get_by_role("textbox").input_value()
    said = made.get_by_role("status")
    await page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('denied')); }")
    await made.get_by_role("button", name="Copy").press("Enter")
    await expect(said).to_have_text("Not copied: the browser did not allow it. Select the text and copy it.")

    await page.evaluate("() => { navigator.clipboard.writeText = async (text) => { window.copied = text; }; }")
    await made.get_by_role("button", name="Not copied").press("Enter")
    await expect(said).to_have_text("Copied")
    assert await page.evaluate("window.copied") == address


async def test_a_link_is_read_without_the_session_of_whoever_opens_it(person: Person) -> None:
    ada, eve = await person("ada"), await person("eve@globex.example")
    await _finished(ada, "echo shared output", name="for-eve")
    address = await _made(ada.page, "for eve")
    asked = _asked(eve.context)
    await eve.page.goto(address)
    await expect(eve.page.get_by_role("log")).to_contain_text("shared output")
    await expect(eve.page.get_by_role("region", name="Script")).to_have_count(0)

    shared = [each for each in asked if "/v1/shared-job" in each.url]
    assert shared
    assert not [each for each in shared if "cookie" in await each.all_headers()]
    await eve.page.goto("/shared#clk_wrong")
    await expect(eve.page.get_by_role("heading", name="This link does not work")).to_be_visible()


async def test_only_the_owner_makes_a_link_and_an_admin_revokes_it(person: Person) -> None:
    grace, ada = await person("grace"), await person("ada")
    job = await _finished(grace, "echo shared output", name="of-grace")
    await _made(grace.page, "from grace")

    await ada.page.goto(f"/c/{ada.user.cluster}/jobs/{job}")
    await ada.page.get_by_role("button", name="Share").click()
    await expect(ada.page.get_by_text("created by grace")).to_be_visible()
    await expect(ada.page.get_by_role("button", name="Create link")).to_have_count(0)
    await ada.page.get_by_role("button", name="Revoke from grace").click()
    await ada.page.get_by_role("button", name="Revoke the link").click()
    await expect(ada.page.get_by_text("There are no links to this job.")).to_be_visible()


async def test_an_owner_sees_their_links_in_one_list_and_revokes_one_there(person: Person, visitor: Visitor) -> None:
    ada = await person("ada")
    job = await _finished(ada, "echo shared output", name="listed")
    name = "<i>from the list</i>"
    address = await _made(ada.page, name)
    await visitor.page.goto(address)
    await expect(visitor.page.get_by_role("log")).to_contain_text("shared output")

    page = ada.page
    await page.goto(f"/c/{ada.user.cluster}/tokens")
    row = page.get_by_role("table", name="Shared links").get_by_role("row").filter(has_text=name)
    await expect(row).to_contain_text("the job, Output, Scheduling")
    assert not await violations(page)
    await row.get_by_role("link", name=f"Job {job}").click()
    await expect(page.get_by_role("log")).to_contain_text("shared output")
    await page.go_back()
    await row.get_by_role("button", name=f"Actions for {name}").click()
    await page.get_by_role("menuitem", name="Revoke").click()
    await page.get_by_role("button", name="Revoke the link").dblclick()
    await expect(row).to_have_count(0)
    await visitor.page.get_by_role("button", name="Refresh").click()
    await expect(visitor.page.get_by_role("heading", name="This link does not work")).to_be_visible()
