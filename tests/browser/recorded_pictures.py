"""Records the pictures of docs/console, of a lab of its own in which two people work: `make record-pictures`.

No name of a test is in them, because no test runs here before, and pytest collects this file only if it is named.
"""

import os
import re
from collections.abc import AsyncIterator

import pytest
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.stack.stack import LabOptions, Stack, stack

from browser.conftest import Person
from browser.people import Visitor
from browser.pictured_work import RUN, filled, session_started
from browser.pictures import SIZE, picture
from browser.playwright_api import Page, expect
from browser.settled import settling

PAGES = {
    "home": "/c/main",
    "jobs": "/c/main/jobs",
    "job": "/c/main/jobs/{job}",
    "sessions": "/c/main/sessions",
    "files": "/c/main/files?path=data",
    "fleet": "/c/main/fleet",
    "costs": "/c/main/costs",
    "activity": "/c/main/activity",
    "templates": "/c/main/templates",
    "admin": "/c/main/admin",
}
CHARTS = (PAGES["fleet"], PAGES["costs"])
SUBMIT = "/c/main/submit"
SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=align-reads
#SBATCH --time=60
#SBATCH --cpus-per-task=8
#SBATCH --mem=12G
#SBATCH --array=1-24%8

sample=$(sed -n "${SLURM_ARRAY_TASK_ID}p" samples.txt)
bwa mem -t "$SLURM_CPUS_PER_TASK" genome.fa "$sample.fastq" > "$sample.sam"
"""


@pytest.fixture(scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """A lab that nobody else uses. Its workers stay for a while without work, so that the fleet has some."""
    assert os.geteuid() == 0, "the lab needs root, because its Slurm runs jobs as several users"
    options = LabOptions(ScalingPolicy(idle_seconds=60.0), environment={"CLUSTERRA_COST_NOTE_SECONDS": "1"})
    async with stack(tmp_path_factory.mktemp("lab"), options) as running:
        yield running


async def _opened(page: Page, path: str) -> None:
    await page.set_viewport_size(SIZE)
    async with settling(page):
        await page.goto(path)
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
    if path in CHARTS:
        # The scripts of charts come later than the page.
        await expect(page.locator("main canvas").first).to_be_visible()


async def test_all_pages(lab: Stack, person: Person, visitor: Visitor) -> None:
    ada, grace = await person("ada"), await person("grace")
    async with session_started(ada.user):
        job = await filled(lab, ada.user, grace.user)

        for name, path in PAGES.items():
            await _opened(ada.page, path.format(job=job))
            await picture(ada.page, name)
        await _opened(ada.page, "/c/main/workflows")
        async with settling(ada.page):
            await ada.page.get_by_role("link", name=RUN).click()
            await expect(ada.page.get_by_role("heading", level=1)).to_contain_text(RUN)
        await picture(ada.page, "workflows")
        await _opened(ada.page, SUBMIT)
        await ada.page.get_by_label("Script", exact=True).click()
        await ada.page.keyboard.press("Control+A")
        async with settling(ada.page):
            await ada.page.keyboard.insert_text(SCRIPT)
            await expect(ada.page.get_by_label("Name", exact=True)).to_have_value("align-reads")
        # The draft in another page has an estimate of its own, and no focus.
        await _opened(ada.page, SUBMIT)
        await expect(ada.page.get_by_label("Name", exact=True)).to_have_value("align-reads")
        await expect(ada.page.get_by_role("button", name=re.compile("^Submit ·"))).to_be_visible()
        await picture(ada.page, "submit")

    await _opened(visitor.page, "/sign-in")
    await picture(visitor.page, "sign-in")
