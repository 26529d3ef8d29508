"""Admin: a person is invited, becomes an admin and loses it; tokens and keys are shown once; the audit tells of it."""

import csv
import io
import time
from pathlib import Path

import pytest
from clusterra_lab.stack.stack import Stack

from browser.accessibility import violations
from browser.conftest import Person
from browser.people import Visitor
from browser.playwright_api import Page, expect
from browser.settled import settling

SECTIONS = ("members", "roles", "tokens", "service-accounts", "identity-sources", "clusters", "audit")
GONE_SECONDS = 2.0
"""Within a second for the person; the rest is this test's, which waits for two pages."""


async def open_section(page: Page, section: str) -> None:
    await page.goto(f"/c/main/admin/{section}")
    await expect(page.get_by_role("heading", name="Admin", level=1)).to_be_visible()


async def act(page: Page, of: str, name: str) -> None:
    await page.get_by_role("button", name=f"Actions for {of}").first.click()
    await page.get_by_role("menuitem", name=name).click()


async def give_role(page: Page, user: str, role: str) -> None:
    await act(page, user, "Change role")
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("button", name=f"Make {user} ")).to_be_disabled()
    await dialog.locator("input").first.click()
    await page.get_by_role("option", name=role, exact=True).click()
    await dialog.get_by_role("button", name=f"Make {user} {role}").click()
    await expect(dialog).to_have_count(0)


async def secret_of(page: Page) -> str:
    secret: str = await page.get_by_test_id("secret").input_value()
    await page.get_by_role("button", name="I have copied it").click()
    return secret


async def test_a_person_of_another_tenant_is_invited_and_chooses_the_tenant(
    lab: Stack, person: Person, visitor: Visitor
) -> None:
    ada = (await person("ada")).page
    await open_section(ada, "members")
    await ada.get_by_role("button", name="Invite").click()
    await ada.get_by_role("dialog").get_by_label("E-mail").fill("eve@globex.example")
    await ada.get_by_role("button", name="Create invitation").click()
    link = await secret_of(ada)
    await expect(ada.get_by_role("button", name="Actions for eve@globex.example")).to_be_visible()

    login = lab.oidc.logins["eve@globex.example"]
    visitor.guards.leave_to(lab.oidc.issuer)
    await visitor.page.goto(link)
    await visitor.page.get_by_role("button", name="Accept and sign in").click()
    await visitor.sign_in(login.subject, login.password_file.read_text().strip())
    await visitor.page.get_by_role("button", name="Workspace Acme").click()
    await visitor.page.get_by_role("menuitem", name="Globex").click()
    await expect(visitor.page.get_by_role("button", name="Workspace Globex")).to_be_visible()

    # Nobody read anything again: events told of the invitation that was accepted.
    await expect(ada.get_by_text("No open invitations.")).to_be_visible()


async def test_who_loses_a_right_loses_it_on_the_open_page(person: Person) -> None:
    ada, grace = (await person("ada")).page, (await person("grace")).page
    await grace.goto("/c/main/admin/members")
    await expect(grace.get_by_text("This page needs the role Admin")).to_be_visible()
    await open_section(ada, "members")

    await give_role(ada, "grace", "Admin")
    await expect(grace.get_by_role("table", name="Members")).to_be_visible()
    await give_role(ada, "grace", "Member")
    await expect(grace.get_by_text("This page needs the role Admin")).to_be_visible()
    await expect(grace.get_by_role("link", name="Admin")).to_have_count(0)

    await grace.goto("/c/main/jobs")
    await expect(grace.get_by_role("status").get_by_text("Live")).to_be_visible()
    await act(ada, "grace", "Disable member")
    await ada.get_by_role("button", name="Disable grace").click()
    began = time.monotonic()
    await grace.wait_for_url("**/sign-in?return_to=%2Fc%2Fmain%2Fjobs*")
    assert time.monotonic() - began < GONE_SECONDS

    await act(ada, "grace", "Enable member")
    await ada.get_by_role("button", name="Enable grace").click()
    await expect(ada.get_by_text("Disabled")).to_have_count(0)


async def test_a_token_is_shown_once_and_works_until_it_is_revoked(person: Person) -> None:
    grace = await person("grace")
    page, name = grace.page, "<img src=x onerror=alert(1)>"
    await page.goto("/c/main/tokens")
    await page.get_by_role("button", name="Create token").click()
    await page.get_by_label("Name").fill(name)
    await page.get_by_role("button", name="Create", exact=True).click()
    bearer = {"Authorization": f"Bearer {await secret_of(page)}"}
    await expect(page.get_by_role("cell", name=name, exact=True)).to_be_visible()
    async with grace.user.session.get("/v1/users/me", headers=bearer) as answer:
        assert answer.status == 200

    await act(page, name, "Revoke token")
    await page.get_by_role("dialog").get_by_role("button", name="Revoke token").click()
    await expect(page.get_by_text("You have no tokens")).to_be_visible()


async def test_a_service_account_gets_a_key_which_is_rotated(person: Person) -> None:
    page = (await person("ada")).page
    await open_section(page, "service-accounts")
    await page.get_by_role("button", name="Create service account").click()
    await page.get_by_label("User name").fill("pipeline")
    await page.get_by_role("dialog").get_by_role("button", name="Create service account").click()
    await page.get_by_role("button", name="Create key for pipeline").click()
    await page.get_by_label("Name").fill("first")
    await page.get_by_role("button", name="Create", exact=True).click()
    first = await secret_of(page)
    await act(page, "first", "Rotate key")
    await page.get_by_role("dialog").get_by_role("button", name="Rotate key").click()

    assert await secret_of(page) != first
    await expect(page.get_by_role("button", name="Actions for first")).to_have_count(2)

    await act(page, "pipeline", "Delete service account")
    await page.get_by_role("button", name="Delete pipeline").click()
    await expect(page.get_by_role("heading", name="pipeline")).to_have_count(0)


async def test_the_audit_is_filtered_in_the_address_and_exported(person: Person) -> None:
    page = (await person("ada")).page
    await page.goto("/c/main/admin/audit?action=user.created&find=ada")
    await expect(page.get_by_role("cell", name="user.created").first).to_be_visible()

    async with page.expect_download() as download:
        await page.get_by_role("link", name="Export CSV").click()

    saved = await download.value
    assert saved.suggested_filename == "audit-main.csv"
    rows = list(csv.DictReader(io.StringIO(Path(await saved.path()).read_text())))
    assert {row["action"] for row in rows} == {"user.created"}
    assert all("ada" in " ".join(row.values()) for row in rows)


async def test_a_paused_cluster_says_so_on_every_page_until_it_is_resumed(person: Person) -> None:
    ada, grace = await person("ada"), await person("grace")

    async def change(state: str) -> None:
        async with ada.user.session.patch("/v1/clusters/main", json={"state": state}) as answer:
            assert answer.status == 200, await answer.text()

    await grace.page.goto("/c/main/fleet")
    await expect(grace.page.get_by_role("heading", name="Fleet")).to_be_visible()
    mark = grace.page.get_by_role("banner").get_by_text("Paused")
    await change("paused")
    try:
        await expect(mark).to_be_visible()
        await ada.page.goto("/c/main/files")
        await expect(ada.page.get_by_role("banner").get_by_role("link", name="Paused")).to_be_visible()
        await ada.page.goto("/c/main")
        await ada.page.get_by_role("link", name="This cluster is paused").click()
        await ada.page.wait_for_url("**/c/main/admin/clusters")
        await ada.page.goto("/c/main/jobs")
        note = ada.page.get_by_role("note").filter(has_text="no workers are bought")
        await expect(note.get_by_role("link", name="Resume it in Admin, Clusters")).to_be_visible()
        assert await violations(ada.page) == []
        await grace.page.goto("/c/main/jobs")
        await expect(grace.page.get_by_role("note").filter(has_text="An admin can resume it")).to_be_visible()
        await expect(grace.page.get_by_role("link", name="Paused")).to_have_count(0)
        for member, hint in ((ada, "Resume it in Admin, Clusters"), (grace, "An admin can resume it.")):
            await member.page.goto("/c/main/submit")
            expected = member.page.get_by_role("region", name="Expected cost and start")
            await expect(expected).to_contain_text("none while the cluster is paused")
            await expect(expected).to_contain_text(hint)
            await expect(expected.get_by_text(", new")).to_have_count(0)
    finally:
        await change("active")

    await expect(mark).to_have_count(0)
    await expect(note).to_have_count(0)
    await expect(ada.page.get_by_role("banner").get_by_text("Paused")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_admin_is_for_everybody(person: Person, scheme: str) -> None:
    page = (await person("ada")).page
    await page.emulate_media(color_scheme=scheme)
    for section in SECTIONS:
        async with settling(page):
            await open_section(page, section)
        assert await violations(page) == [], section
