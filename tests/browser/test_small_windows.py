"""Dialogs and drawers in small windows: all of their buttons can be reached."""

from collections.abc import Awaitable, Callable

from clusterra_lab.stack.stack import Stack
from staged_files import uploaded

from browser.conftest import Person
from browser.people import Member
from browser.playwright_api import expect
from browser.small_windows import faults_in_small_windows

FILE = "data/small-windows/twice.txt"
FOLDER = "/c/main/files?path=data/small-windows"

type Opening = Callable[[Member, str], Awaitable[None]]


def pressed(path: str, *names: str) -> Opening:
    """Opens a page, of a job where the path has its id, and presses one button after the other."""

    async def opening(member: Member, job: str) -> None:
        await member.page.goto(path.format(job=job))
        for name in names:
            await member.page.get_by_role("button", name=name).first.click()

    return opening


async def decision(member: Member, _job: str) -> None:
    await member.user.submit("#!/bin/sh\n", {"time_limit": 5})
    await member.page.goto("/c/main/fleet")
    await member.page.get_by_role("table", name="Decisions", exact=True).get_by_role("button").first.click()
    await expect(member.page.get_by_role("button", name="Compare")).to_be_visible()


async def upload_of_a_name_that_is_there(member: Member, _job: str) -> None:
    await member.page.goto(FOLDER)
    await expect(member.page.get_by_role("link", name="twice.txt")).to_be_visible()
    file = {"name": "twice.txt", "mimeType": "text/plain", "buffer": b"other"}
    await member.page.locator("input[type=file]").first.set_input_files(file)


async def deletion(member: Member, _job: str) -> None:
    await member.page.goto(FOLDER)
    await member.page.get_by_role("checkbox", name="Select twice.txt").check()
    await member.page.get_by_role("button", name="Delete").click()


async def keys(member: Member, _job: str) -> None:
    await member.page.goto("/c/main/jobs")
    await expect(member.page.get_by_role("heading", level=1)).to_be_visible()
    await member.page.keyboard.press("?")


DIALOGS: dict[str, Opening] = {
    "share": pressed("/c/main/jobs/{job}", "Share"),
    "edit": pressed("/c/main/jobs/{job}", "Edit"),
    "cancel": pressed("/c/main/jobs/{job}", "Cancel"),
    # Other jobs may have the number in their names.
    "many": pressed("/c/main/jobs?find={job}", "Actions on th"),
    "what-if": decision,
    "schedule": pressed("/c/main/workflows/schedules", "Create schedule"),
    "workflow": pressed("/c/main/workflows", "Start a workflow"),
    "session": pressed("/c/main/sessions", "Start a session"),
    "upload": upload_of_a_name_that_is_there,
    "delete": deletion,
    "file": pressed(f"{FOLDER}&file={FILE}"),
    "quota": pressed("/c/main/costs?tab=limits", "Set a quota"),
    "invitation": pressed("/c/main/admin/members", "Invite"),
    "token": pressed("/c/main/tokens", "Create token"),
    "keys": keys,
}


async def test_the_buttons_of_each_dialog_are_reached(lab: Stack, person: Person) -> None:
    ada = await person("ada")
    await uploaded(lab, ada.user, FILE, b"text")
    job = (await ada.user.submit("#!/bin/sh\n", {"time_limit": 5, "hold": True, "name": "small windows"})).job_id
    found: list[str] = []
    for name, opening in DIALOGS.items():
        await opening(ada, job)
        await expect(ada.page.get_by_role("dialog").first).to_be_visible()
        faults = await faults_in_small_windows(ada.page, '[role="dialog"]', reads=False)
        found += [f"{name}: {line}" for line in faults]
    await ada.user.cancel(job)
    assert not found, "\n".join(found)
