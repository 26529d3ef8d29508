"""Files: what people upload, look at, copy and delete, and what they may not."""

import asyncio
import base64
import re
from pathlib import Path

from browser.accessibility import violations
from browser.conftest import Person
from browser.playwright_api import Page, expect

HOSTILE = "<img src=x onerror=alert(1)> & 50 % #?.txt"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
MIB = 1024**2
PART = 64 * MIB
"""The least part into which the API cuts a file."""


async def test_files_are_uploaded_shown_and_deleted(person: Person, tmp_path: Path) -> None:
    ada = await person("ada")
    page = ada.page
    (tmp_path / HOSTILE).write_text("<script>alert(2)</script>")
    (tmp_path / "dot.png").write_bytes(PNG)
    (tmp_path / "drawing.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(3)</script></svg>")

    await page.goto("/c/main/files")
    await page.get_by_role("link", name="Open data to upload files").click()
    await expect(page.get_by_role("button", name="Upload files")).to_be_visible()
    await page.goto("/c/main/files?path=data/journey")
    await expect(page.get_by_text("No files yet")).to_be_visible()
    await _choose(page, *tmp_path.iterdir())
    await expect(page.get_by_text("3 of 3 files")).to_be_visible()

    await page.get_by_role("link", name=HOSTILE).click()
    await expect(page.get_by_role("region", name=f"Content of {HOSTILE}")).to_have_text("<script>alert(2)</script>")
    assert await violations(page) == []
    await page.get_by_role("dialog").get_by_role("button", name="Close").click()
    await page.get_by_role("link", name="dot.png").click()
    await expect(page.get_by_role("img", name="Image dot.png")).to_have_attribute("src", _BLOB)
    await page.get_by_role("dialog").get_by_role("button", name="Close").click()
    await page.get_by_role("link", name="drawing.svg").click()
    await expect(page.get_by_role("region", name="Content of drawing.svg")).to_contain_text("<svg")
    async with page.expect_download() as download:
        await page.get_by_role("button", name="Download").click()
    assert (await download.value).suggested_filename == "drawing.svg"
    await page.get_by_role("dialog").get_by_role("button", name="Close").click()

    await page.get_by_role("checkbox", name="Select drawing.svg").check()
    await page.get_by_role("button", name="Rename").click()
    place = page.get_by_role("dialog").get_by_role("textbox")
    await place.fill("nowhere/drawing.svg")
    await place.press("Enter")
    await expect(place).to_have_attribute("aria-invalid", "true")
    await expect(place).to_have_accessible_description(re.compile("there is no such folder"))
    await expect(place).to_be_focused()
    assert await violations(page) == []
    await place.press("Escape")

    await page.get_by_role("checkbox", name="Select all").check()
    await page.get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("dialog")).to_contain_text(f"data/journey/{HOSTILE}")
    await page.get_by_role("button", name="Delete 3 files").click()
    await expect(page.get_by_text("No files yet")).to_be_visible()


async def test_an_upload_that_was_cut_goes_on_after_a_reload(person: Person, tmp_path: Path) -> None:
    ada = await person("ada")
    page = ada.page
    large = tmp_path / "large.bin"
    with large.open("wb") as file:
        file.truncate(PART + 6 * MIB)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "PUT" else None)
    page.on("dialog", lambda dialog: asyncio.ensure_future(dialog.accept()))
    cut = asyncio.Event()
    await page.route(lambda url: "partNumber=2" in url, lambda _: cut.set())

    await page.goto("/c/main/files?path=data/cut")
    await _choose(page, large)
    async with asyncio.timeout(90):
        await cut.wait()
    # In this order: a request that is held goes on once nobody holds it.
    await page.reload()
    await page.unroute_all()
    await expect(page.get_by_role("region", name="Unfinished uploads")).to_contain_text("large.bin")
    sent.clear()
    await _choose(page, large)
    await expect(page.get_by_role("link", name="large.bin")).to_be_visible()

    assert ["partNumber=2" in url for url in sent] == [True]
    await page.get_by_role("checkbox", name="Select large.bin").check()
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("button", name="Delete 1 file").click()
    await expect(page.get_by_text("No files yet")).to_be_visible()


async def test_others_read_what_is_copied_to_shared_and_cannot_write_there(person: Person, tmp_path: Path) -> None:
    ada, grace = await person("ada"), await person("grace")
    (tmp_path / "for-all.txt").write_text("hello")
    await grace.page.goto("/c/main/files?path=shared")
    await expect(grace.page.get_by_text("No files yet")).to_be_visible()
    await expect(grace.page.get_by_role("button", name="Upload files")).to_have_count(0)

    await ada.page.goto("/c/main/files?path=data/shared")
    await _choose(ada.page, tmp_path / "for-all.txt")
    await ada.page.get_by_role("link", name="for-all.txt").click()
    await ada.page.get_by_role("button", name="Copy to shared").click()
    await ada.page.get_by_role("button", name="Copy 1 file").click()

    await expect(ada.page.get_by_role("dialog")).to_have_count(0)
    await grace.page.reload()
    await expect(grace.page.get_by_role("link", name="for-all.txt")).to_be_visible()
    await grace.page.get_by_role("checkbox", name="Select for-all.txt").check()
    await expect(grace.page.get_by_role("button", name="Delete")).to_have_count(0)


_BLOB = re.compile("^blob:")


async def _choose(page: Page, *files: Path) -> None:
    """Choose files as one does with the button, in the folder that the page shows."""
    await expect(page.get_by_role("button", name="Upload files")).to_be_visible()
    await page.locator("input[type=file]").first.set_input_files([str(file) for file in files])
