"""What the pages of a cluster say while it changes: the live mark, and the rows of the list of jobs."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import ClientSession
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack

from browser.playwright_api import Context, Locator, Page, expect
from browser.settled import settling

LIVE = re.compile(r"\bLive\b")
NOT_LIVE = re.compile(r"\b(As of|Connecting)\b")
JOB = {"memory_per_cpu": 512, "time_limit": 10}
"""A small job, which one worker of the lab runs beside others."""
SCRIPT = "#!/bin/sh\n"
WORDS: Mapping[str, str] = {
    "PENDING": "Waiting",
    "CONFIGURING": "Starting",
    "RUNNING": "Running",
    "COMPLETING": "Running",
    "COMPLETED": "Done",
    "FAILED": "Failed",
    "CANCELLED": "Cancelled",
}
"""Slurm's state of a job, and the word of the console."""


def live_mark(page: Page) -> Locator:
    """Says whether what the page shows is live."""
    return page.get_by_role("banner").get_by_role("status")


async def opened(page: Page, path: str) -> None:
    """Open a page of a cluster, and wait until it is live and has read what it shows."""
    async with settling(page):
        await page.goto(path)
        await expect(live_mark(page)).to_have_text(LIVE)
        await expect(page.get_by_role("main").get_by_role("heading", level=1)).to_be_visible()


def row_of(page: Page, name: str) -> Locator:
    """The rows of the jobs with this name; one, unless the page is wrong."""
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


async def expect_states(page: Page, words: Mapping[str, str]) -> None:
    """Wait until each job, by its name, has exactly one row, and that has this word."""
    for name, word in words.items():
        await expect(row_of(page, name)).to_have_count(1)
        await expect(row_of(page, name)).to_contain_text(word)


async def told_by_the_api(user: User, names: Sequence[str]) -> dict[str, str]:
    """The console's word for the state of each of these jobs, as the gateway's list has them now."""
    async with user.session.get(f"/v1/clusters/{user.cluster}/jobs", params={"limit": "1000"}) as answer:
        assert answer.status == 200, await answer.text()
        jobs: list[dict[str, Any]] = (await answer.json())["jobs"]
    found = [job for job in jobs if job["name"] in names]
    assert sorted(job["name"] for job in found) == sorted(names), "the list has a job twice, or not at all"
    return {job["name"]: WORDS[job["state"].partition(",")[0]] for job in found}


def list_requests(context: Context) -> list[str]:
    """The addresses of lists of jobs and of events that pages of this context ask for from now on."""
    asked: list[str] = []
    is_list = re.compile(r"/v1/clusters/[^/]+/(jobs|events)(\?|$)")
    context.on("request", lambda request: asked.append(request.url) if is_list.search(request.url) else None)
    return asked


async def open_streams(lab: Stack) -> int:
    """How many streams of events the gateway has now, of all browsers."""
    async with ClientSession() as http, http.get(f"{lab.services['gateway'].health_url}/metrics") as answer:
        text = await answer.text()
    (line,) = [line for line in text.splitlines() if line.startswith("clusterra_feed_subscribers ")]
    return int(float(line.split()[1]))
