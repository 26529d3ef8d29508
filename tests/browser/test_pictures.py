"""Pictures of pages are recorded in both themes, and those of a failed test are saved."""

from pathlib import Path

import pytest

from browser import pictures
from browser.own_page import Site

THEMES = "matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pictures, "FOLDER", tmp_path / "pictures")
    return tmp_path / "pictures"


async def test_pictures_are_recorded_in_both_themes(site: Site, folder: Path) -> None:
    await site.open(body="<p>Text</p>")
    before = await site.page.evaluate(THEMES), site.page.viewport_size

    await pictures.picture(site.page, "page")

    assert {file.name for file in folder.iterdir()} == {"page-dark.png", "page-light.png"}
    for file in folder.iterdir():
        content = file.read_bytes()
        width, height = int.from_bytes(content[16:20]), int.from_bytes(content[20:24])
        assert content.startswith(b"\x89PNG")
        assert (width, height) == (1280, 800)
    assert (await site.page.evaluate(THEMES), site.page.viewport_size) == before


async def test_a_page_that_failed_is_saved(site: Site, tmp_path: Path) -> None:
    await site.open(body="<p>What was there</p>")

    looks, text = await pictures.saved(site.page, tmp_path, "ada-0")

    assert looks.read_bytes().startswith(b"\x89PNG")
    assert "What was there" in text.read_text()


async def test_a_page_that_is_closed_leaves_nothing_to_save(site: Site, tmp_path: Path) -> None:
    await site.page.close()

    assert await pictures.saved(site.page, tmp_path, "ada-0") == []
