"""An output of 100 MB: its end at once, its start, what is found in it, its colours, and all of it as a file."""

import hashlib
import re
import shlex
import time
from pathlib import Path

from clusterra_lab.machine.process import until

from browser.conftest import Person
from browser.playwright_api import expect

HOSTILE = "<img src=x onerror=window.harmed=1>"
FIRST = "the very first line\n"
LINE = f"\033[32mok\033[0m <b>bold</b> {HOSTILE} \033]0;title\007 \033[2J \u202e 0123456789 0123456789\n"
LAST = "\033[31mthe last\033[0m needle \033]8;;javascript:window.harmed=1\007link\033]8;;\007\n"
LINES = 100_000_000 // len(LINE.encode()) + 1
SCRIPT = f"""#!/bin/bash
printf %s {shlex.quote(FIRST)}
yes {shlex.quote(LINE.removesuffix("\n"))} | head -n {LINES}
printf %s {shlex.quote(LAST)}
"""
SHOWN_SECONDS = 10.0
MOST_SILENT_MILLISECONDS = 5_000
"""A page that lays out all lines is silent for tens of seconds. A second or two is a busy machine's own."""
_COUNT_GAPS = """() => { let last = performance.now(); window.gap = 0;
  const next = (now) => { window.gap = Math.max(window.gap, now - last); last = now; requestAnimationFrame(next); };
  requestAnimationFrame(next); }"""


async def test_an_output_of_100_mb_is_read_searched_and_saved(person: Person, tmp_path: Path) -> None:
    ada = await person("ada")
    page, user = ada.page, ada.user
    job = (
        await user.submit(SCRIPT, {"name": "large", "time_limit": 5, "current_working_directory": "/mnt/efs"})
    ).job_id

    async def ended() -> bool:
        return (await user.job(job)).state.startswith("COMPLETED")

    await until(ended, seconds=90, what="the end of the job")
    await page.goto("/c/main/jobs?find=large")
    await page.evaluate(_COUNT_GAPS)
    began = time.monotonic()
    await page.get_by_role("link", name="large", exact=True).first.click()
    output = page.get_by_role("log")
    await expect(output).to_contain_text("the last needle link")
    assert time.monotonic() - began < SHOWN_SECONDS

    await expect(output.locator("[data-color=red]", has_text="the last")).to_be_visible()
    await expect(output.locator("[data-color=green]").first).to_have_text("ok")
    await expect(output).to_contain_text(f"<b>bold</b> {HOSTILE}")
    await page.get_by_label("Find in the loaded part").fill("needle")
    await expect(page.get_by_role("status").filter(has_text="1 line matches")).to_be_visible()
    await page.get_by_role("button", name="Start", exact=True).click()
    await expect(output).to_contain_text("the very first line")
    assert await output.locator("img, b, a").count() == 0
    assert not await page.evaluate("window.harmed")
    assert await page.evaluate("window.gap") < MOST_SILENT_MILLISECONDS

    async with page.expect_download() as download:
        await page.get_by_role("link", name=re.compile("Download")).click()
    await (await download.value).save_as(saved := tmp_path / "output")
    assert saved.stat().st_size > 100_000_000
    assert _digest(saved.read_bytes()) == _digest(f"{FIRST}{LINE * LINES}{LAST}".encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
