"""A long list of jobs: filtered by keys, sent to somebody by its address, and there again after a job was looked at.

The jobs have a lab of their own, so that no other journey reads a list as long as theirs. JOBS says how many there are.
"""

import os
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

import pytest
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.services import console_built
from clusterra_lab.stack.stack import Stack, stack

from browser.conftest import Person
from browser.held_jobs import held_jobs
from browser.keyboard import go_to, press
from browser.live_pages import opened
from browser.playwright_api import Page, expect

JOBS = int(os.environ.get("JOBS", "1000"))
FIRST_WORDS = ("align", "train", "fold", "render")
CANCELLED = 20
"""So many jobs of the first name have ended."""
MATCHING = JOBS // len(FIRST_WORDS) - CANCELLED
FAR_PIXELS = 1000
LOOKS = 5
_TABLE = "document.querySelector('main [role=table]')"
_PLACE = f"{_TABLE}?.scrollTop ?? 0"
_ROWS_IN_SIGHT = f"""(() => {{
  const table = {_TABLE}, {{ top, bottom }} = table.getBoundingClientRect();
  return [...table.querySelectorAll("[data-body]")]
    .filter((row) => row.getBoundingClientRect().top >= top && row.getBoundingClientRect().bottom <= bottom)
    .sort((one, other) => one.ariaRowIndex - other.ariaRowIndex)
    .map((row) => row.querySelector("a").textContent);
}})()"""


@pytest.fixture(scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """A lab with many held jobs of ada, of which some are cancelled. They end with their Slurm."""
    if os.geteuid() != 0:
        pytest.skip("the lab needs root, because its Slurm runs jobs as several users")
    assert console_built(), "the console is not built: make console-build"
    async with stack(tmp_path_factory.mktemp("lab")) as running, running.user("ada@acme.example") as ada:
        names = [f"{FIRST_WORDS[number % len(FIRST_WORDS)]}-{number:05}" for number in range(JOBS)]
        jobs = await held_jobs(running, ada, names)
        await running.slurm.run("scancel", "--ctld", *(jobs[name] for name in names[:: len(FIRST_WORDS)][:CANCELLED]))
        await until(lambda: _all_listed(ada), seconds=300, what=f"{JOBS} jobs in the queue and the accounting", every=1)
        yield running


async def _all_listed(user: User) -> bool:
    """Whether both halves of the list have all jobs. Slurm's accounting stores so many only after a while."""
    for of in ({}, {"submitted_after": "2000-01-01T00:00:00Z"}):
        path = f"/v1/clusters/{user.cluster}/jobs"
        async with user.session.get(path, params={"limit": "1", **of}) as answer:
            if answer.status != 200 or (await answer.json())["total"] != JOBS:
                return False
    return True


async def scrolled_by_keys(page: Page) -> int:
    """Press PageDown until the list is far from its top, and return its place when that stays the same for a second."""
    while int(await page.evaluate(_PLACE)) < FAR_PIXELS:
        await page.keyboard.press("PageDown")
    places = list(range(LOOKS))

    async def still() -> bool:
        places.append(int(await page.evaluate(_PLACE)))
        return len(set(places[-LOOKS:])) == 1

    await until(still, seconds=90, what="a list that does not move", every=1 / LOOKS)
    return places[-1]


async def expect_list(page: Page, address: str, place: int, rows: list[str]) -> None:
    """Wait until the page at the address shows these rows, scrolled to this place."""
    await expect(page).to_have_url(address)
    await expect(page.locator("#content").get_by_text(f"{MATCHING:,} of {JOBS:,} jobs since")).to_be_visible()
    await until(lambda: _same(page, place, rows), seconds=90, what=f"the rows {rows} at {place}", every=0.2)


async def _same(page: Page, place: int, rows: list[str]) -> bool:
    return int(await page.evaluate(_PLACE)) == place and await page.evaluate(_ROWS_IN_SIGHT) == rows


async def test_a_long_list_is_filtered_shared_and_there_again(lab: Stack, person: Person) -> None:
    ada = await person("ada")
    page, table = ada.page, ada.page.get_by_role("table", name="Jobs")
    await opened(page, "/c/main/jobs")
    await expect(page.get_by_text(f"{JOBS:,} of {JOBS:,} jobs since")).to_be_visible()

    await go_to(page, page.get_by_label("Name or job ID"))
    await page.keyboard.type(FIRST_WORDS[0])
    await press(page, page.get_by_role("group", name="Filters").get_by_role("button", name="State", exact=True))
    await go_to(page, page.get_by_role("checkbox", name="Waiting"))
    await page.keyboard.press("Space")
    await page.keyboard.press("Escape")
    await press(page, table.get_by_role("button", name="Name", exact=True))

    await expect(page.locator("#content").get_by_text(f"{MATCHING:,} of {JOBS:,} jobs since")).to_be_visible()
    asked = parse_qs(urlsplit(page.url).query)
    assert asked == {"find": [FIRST_WORDS[0]], "states": ['["waiting"]'], "sort": ["name"]}
    address, first_rows = page.url, await page.evaluate(_ROWS_IN_SIGHT)
    assert first_rows[0] == f"{FIRST_WORDS[0]}-{CANCELLED * len(FIRST_WORDS):05}"

    elsewhere = (await person("ada")).page
    await elsewhere.set_viewport_size(page.viewport_size)
    await elsewhere.goto(address)
    await expect_list(elsewhere, address, 0, first_rows)

    await table.focus()
    place = await scrolled_by_keys(page)
    rows = await page.evaluate(_ROWS_IN_SIGHT)
    await table.get_by_role("link", name=rows[2], exact=True).press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_contain_text(rows[2])
    await page.go_back()
    await expect_list(page, address, place, rows)

    # A reload keeps the filters and the order. It begins at the top, because the list is read anew.
    await page.reload()
    await expect_list(page, address, 0, first_rows)
