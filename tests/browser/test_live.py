"""Pages stay right without polling: while jobs run, in many tabs, over a fault, and when rights change."""

import re
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from gates import closed_gate

from browser.conftest import Person
from browser.live_pages import (
    JOB,
    LIVE,
    NOT_LIVE,
    SCRIPT,
    expect_states,
    list_requests,
    live_mark,
    open_streams,
    opened,
    row_of,
    told_by_the_api,
)
from browser.people import Member
from browser.playwright_api import Locator, Page, expect

JOBS = "/c/main/jobs"
TABS = 10
BACK_SECONDS = 4.0
GONE_SECONDS = 5.0
"""The most that an open page may keep after its member was disabled. It takes about one."""
SIGN_IN = re.compile(r"/sign-in")


def new_name(what: str) -> str:
    return f"{what}-{secrets.token_hex(4)}"


@asynccontextmanager
async def changed_member(admin: User, name: str, **change: object) -> AsyncIterator[None]:
    """Change a member as an admin does, and change them back when the block ends."""
    async with admin.session.get("/v1/members", params={"limit": 200}) as answer:
        (member,) = [each for each in (await answer.json())["members"] if each["name"] == name]

    async def patch(body: dict[str, object]) -> None:
        async with admin.session.patch(f"/v1/members/{member['id']}", json=body) as answer:
            assert answer.status == 200, await answer.text()

    try:
        await patch(change)
        yield
    finally:
        await patch({field: member[field] for field in change})


async def no_streams(lab: Stack) -> None:
    """Wait until the gateway has noticed that the browsers of earlier tests have gone."""

    async def none() -> bool:
        return await open_streams(lab) == 0

    await until(none, seconds=90, what="the end of earlier streams", every=0.1)


def shown_word(page: Page, word: str) -> Locator:
    """A mark of a state, which has a shape before the word."""
    return page.get_by_role("main").get_by_text(re.compile(rf"^\W*{word}$")).first


async def test_a_job_is_seen_to_its_end_without_reading_a_list_again(lab: Stack, person: Person) -> None:
    ada, gate, name = await person("ada"), closed_gate(lab), new_name("followed")
    await opened(ada.page, JOBS)
    asked = list_requests(ada.context)
    await ada.page.evaluate("() => { window.notLoadedAgain = true; }")

    job = await ada.user.submit(SCRIPT + gate.wait, {"name": name, "hold": True, **JOB})
    await expect_states(ada.page, {name: "Waiting"})
    of_list = list(asked)
    page = await ada.context.new_page()
    await opened(page, f"{JOBS}/{job.job_id}")
    await page.evaluate("() => { window.notLoadedAgain = true; }")
    asked.clear()
    await expect(shown_word(page, "Waiting")).to_be_visible()
    async with ada.user.session.post(f"/v1/clusters/main/jobs/{job.job_id}/release") as answer:
        assert answer.status < 300, await answer.text()
    await expect_states(ada.page, {name: "Running"})
    await expect(shown_word(page, "Running")).to_be_visible()
    gate.open()
    await expect_states(ada.page, {name: "Done"})
    await expect(shown_word(page, "Done")).to_be_visible()

    assert of_list == []
    assert asked == []
    assert await ada.page.evaluate("window.notLoadedAgain")
    assert await page.evaluate("window.notLoadedAgain")


async def test_ten_tabs_are_live_with_one_stream(lab: Stack, person: Person) -> None:
    ada, name = await person("ada"), new_name("tabs")
    await no_streams(lab)
    tabs = [ada.page, *[await ada.context.new_page() for _ in range(TABS - 1)]]
    for tab in tabs:
        await opened(tab, JOBS)

    job = await ada.user.submit(SCRIPT, {"name": name, "hold": True, **JOB})
    for tab in tabs:
        await expect_states(tab, {name: "Waiting"})
    streams = await open_streams(lab)
    await row_of(tabs[-1], name).get_by_role("link", name=name).click()
    await expect(tabs[-1]).to_have_url(re.compile(f"{JOBS}/{job.job_id}"))
    await expect(tabs[-1].get_by_role("heading", level=1)).to_contain_text(name)
    await ada.user.cancel(job.job_id)
    for tab in tabs[:-1]:
        await expect_states(tab, {name: "Cancelled"})

    assert streams == 1


async def test_nothing_is_lost_or_doubled_when_the_gateway_is_killed(lab: Stack, person: Person) -> None:
    ada, gate = await person("ada"), closed_gate(lab)
    gateway, owner = lab.services["gateway"], SlurmUser(name="ada", uid=ada_uid(ada), gid=ada_uid(ada))
    running, cancelled, kept, new = (new_name(word) for word in ("ends", "cancelled", "kept", "new"))
    await opened(ada.page, JOBS)
    await ada.user.submit(SCRIPT + gate.wait, {"name": running, **JOB})
    held = [await ada.user.submit(SCRIPT, {"name": name, "hold": True, **JOB}) for name in (cancelled, kept)]
    await expect_states(ada.page, {running: "Running", cancelled: "Waiting", kept: "Waiting"})
    asked = list_requests(ada.context)

    gateway.kill()
    await expect(live_mark(ada.page)).to_have_text(NOT_LIVE)
    gate.open()
    await lab.slurm.run("scancel", held[0].job_id)
    added = await lab.slurm.sbatch(
        owner, SCRIPT, "--hold", f"--job-name={new}", "--time=1", "--mem-per-cpu=512", "--output=/dev/null"
    )

    async def has_ended() -> bool:
        shown = await lab.slurm.run("squeue", "--noheader", "--states=all", f"--name={running}", "--format=%T")
        return "COMPLETED" in shown.stdout

    await until(has_ended, seconds=90, what="the end of the job", every=0.2)
    await expect(live_mark(ada.page)).to_have_text(re.compile("As of"))
    await gateway.start()
    await gateway.ready()
    began = time.monotonic()
    await expect(live_mark(ada.page)).to_have_text(LIVE)
    back = time.monotonic() - began
    right = {running: "Done", cancelled: "Cancelled", kept: "Waiting", new: "Waiting"}
    await expect_states(ada.page, right)
    told = await told_by_the_api(ada.user, list(right))
    for job in (held[1].job_id, added):
        await lab.slurm.run("scancel", job)
    await expect_states(ada.page, {kept: "Cancelled", new: "Cancelled"})

    print(f"live again {back:.2f} s after the gateway was ready")
    assert told == right
    assert asked == []
    assert back <= BACK_SECONDS


def ada_uid(member: Member) -> int:
    return member.user.profile.uid


async def test_all_tabs_go_along_with_a_sign_out(person: Person) -> None:
    ada = await person("ada")
    other = await ada.context.new_page()
    for page in (ada.page, other):
        await opened(page, JOBS)

    await ada.page.get_by_role("banner").get_by_role("button", name=re.compile("Ada")).click()
    await ada.page.get_by_role("menuitem", name="Sign out").click()

    for page in (ada.page, other):
        await expect(page).to_have_url(SIGN_IN)
        await expect(page.get_by_role("table")).to_have_count(0)


@pytest.mark.parametrize("path", [JOBS, "/c/main"])
async def test_a_disabled_member_loses_the_open_page(person: Person, path: str) -> None:
    ada, grace = await person("ada"), await person("grace")
    await opened(grace.page, path)

    began = time.monotonic()
    async with changed_member(ada.user, "grace", disabled=True):
        await expect(grace.page).to_have_url(SIGN_IN)
        seconds = time.monotonic() - began
        await expect(grace.page.get_by_role("table")).to_have_count(0)

    print(f"{path}: gone {seconds:.2f} s after the admin's request began")
    assert seconds <= GONE_SECONDS


async def test_an_open_page_follows_the_role(person: Person) -> None:
    ada, grace, name = await person("ada"), await person("grace"), new_name("ofada")
    job = await ada.user.submit(SCRIPT, {"name": name, "hold": True, **JOB})
    await opened(grace.page, JOBS)
    await expect(row_of(grace.page, name)).to_have_count(0)

    async with changed_member(ada.user, "grace", role="admin"):
        await expect_states(grace.page, {name: "Waiting"})
    await expect(row_of(grace.page, name)).to_have_count(0)
    await expect(live_mark(grace.page)).to_have_text(LIVE)
    await ada.user.cancel(job.job_id)
