"""Every page, with names that somebody wrote to do harm: for everybody, at any width, in both themes.

The pages of the rail come from the console itself; others are a line here.
"""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from clusterra_lab.parts.api_errors import UnexpectedAnswerError
from clusterra_lab.parts.user import SubmittedJob
from clusterra_lab.stack.stack import Stack
from staged_files import uploaded

from browser.accessibility import violations
from browser.conftest import Person
from browser.live_pages import JOB, SCRIPT
from browser.people import Visitor
from browser.pictures import SIZE
from browser.playwright_api import Page, expect
from browser.settled import settling
from browser.small_windows import faults_in_small_windows

RAIL = re.compile(r'key: "(\w+)", to: "([^"]+)"')
PAGES_FILE = Path(__file__).parents[2] / "console/src/app/pages.ts"
IN_THE_RAIL = {key: to.replace("$cluster", "main") for key, to in RAIL.findall(PAGES_FILE.read_text())}
OTHERS = {
    "job": "/c/main/jobs/{job}",
    "members": "/c/main/admin/members",
    "limits": "/c/main/costs?tab=limits",
    "schedules": "/c/main/workflows/schedules",
    "template": "/c/main/templates/shell",
    "no-such-job": "/c/main/jobs/999999999",
    "no-such-page": "/c/main/nonsense",
    "no-such-cluster": "/c/nonsense/jobs",
}
OF_NOBODY = {"sign-in": "/sign-in", "shared": "/shared"}
HOSTILE = {
    "markup": '<img src=x onerror="window.harmed=1">',
    "script": "</title><script>window.harmed=1</script>",
    "right-to-left": "\u202egnp.exe\u2066 \u200fab",
    "long": "n" * 1000,
}


@pytest.fixture(scope="module")
async def job(lab: Stack) -> AsyncIterator[SubmittedJob]:
    """Jobs that wait, one of each hostile name that the API takes, and a file and a finished job beside them."""
    async with lab.user("ada@acme.example") as ada:
        jobs: dict[str, SubmittedJob] = {}
        for what, name in HOSTILE.items():
            try:
                jobs[what] = await ada.submit(SCRIPT, {"name": name, "hold": True, **JOB})
            except UnexpectedAnswerError as refused:
                print(f"a job with a name of {what} is refused: {refused}")
        await ada.submit(SCRIPT + "echo done\n", {"name": "good", **JOB})
        await uploaded(lab, ada, 'data/<img src=x onerror="window.harmed=1">', b"text")
        yield jobs["markup"]
        for each in jobs.values():
            await ada.cancel(each.job_id)


async def faults(page: Page, *, framed: bool) -> list[str]:
    """What is wrong with the page that is open, in both themes and at all widths; framed: with rail and bar."""
    found: list[str] = []
    for theme in ("light", "dark"):
        await page.emulate_media(color_scheme=theme)
        found += [f"{theme}: {line}" for line in await violations(page)]
    await page.emulate_media(color_scheme="null")
    found += await faults_in_small_windows(page, "#root", reads=True)
    counts = {role: await page.get_by_role(role).count() for role in ("main", "banner", "navigation")}
    expected = {"main": 1, "banner": int(framed), "navigation": int(framed)}
    found += [f"{counts[role]} landmarks of {role}" for role, count in expected.items() if counts[role] < count]
    if counts["main"] > 1:
        found.append("several landmarks of main")
    if (headings := await page.get_by_role("heading", level=1).count()) != 1:
        found.append(f"{headings} headings of level 1")
    if not re.fullmatch(r".+ · Clusterra", title := await page.title()):
        found.append(f"the title is {title!r}")
    if await page.evaluate("window.harmed"):
        found.append("a name ran as a script")
    return found


async def opened(visitor: Visitor, path: str) -> Page:
    page = visitor.page
    await page.set_viewport_size(SIZE)
    async with settling(page):
        await page.goto(path)
        await expect(page.locator("#root > *").first).to_be_attached()
    return page


@pytest.mark.parametrize("name", [*IN_THE_RAIL, *OTHERS])
async def test_a_page_of_a_cluster_is_for_everybody(person: Person, job: SubmittedJob, name: str) -> None:
    ada = await person("ada")
    page = await opened(ada, (IN_THE_RAIL | OTHERS)[name].format(job=job.job_id))

    found = await faults(page, framed=True)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", OF_NOBODY)
async def test_a_page_without_a_session_is_for_everybody(visitor: Visitor, name: str) -> None:
    page = await opened(visitor, OF_NOBODY[name])

    found = await faults(page, framed=False)
    assert not found, "\n".join(found)


async def test_names_are_shown_as_they_are(person: Person, job: SubmittedJob) -> None:
    ada = await person("ada")
    page = await opened(ada, IN_THE_RAIL["jobs"])

    await expect(page.get_by_role("link", name=HOSTILE["markup"], exact=True).first).to_be_visible()
    await expect(page.get_by_role("link", name="⟨202e⟩gnp.exe").first).to_be_visible()
    assert await page.locator("img[src=x]").count() == 0
    assert not await page.evaluate("window.harmed")
