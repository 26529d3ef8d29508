"""Pictures of pages: those of the documentation, and those of a page whose test failed."""

import sys
from importlib import import_module
from io import BytesIO
from pathlib import Path

from cached_packages import installed

from browser.playwright_api import Page, playwright_error

FOLDER = Path(__file__).parents[2] / "docs/console"
SIZE = {"width": 1280, "height": 800}
MAX_BYTES = 300_000
"""The most that a picture of the documentation may take."""
_COLOURS = 256
_PILLOW = "pillow==12.*"
_THEMES = ("light", "dark")


async def picture(page: Page, name: str) -> None:
    """Record docs/console/NAME-light.png and NAME-dark.png."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    before = page.viewport_size
    await page.set_viewport_size(SIZE)
    for theme in _THEMES:
        await page.emulate_media(color_scheme=theme)
        content = await _reduced(await page.screenshot(animations="disabled"))
        assert len(content) <= MAX_BYTES, f"the picture {name}-{theme} has {len(content)} bytes"
        (FOLDER / f"{name}-{theme}.png").write_bytes(content)
    await page.emulate_media(color_scheme="null")
    await page.set_viewport_size(before)


async def saved(page: Page, folder: Path, name: str) -> list[Path]:
    """Save how a page looks, and its HTML, and return the files. A page that does not answer has none."""
    looks, text = folder / f"{name}.png", folder / f"{name}.html"
    try:
        await page.screenshot(path=str(looks), full_page=True, timeout=10_000)
        text.write_text(await page.content())
    except playwright_error():
        return []
    return [looks, text]


async def _reduced(content: bytes) -> bytes:
    """The PNG with a palette in place of 24 bits for each point."""
    folder = str(await installed(f"pillow-{sys.version_info[0]}.{sys.version_info[1]}", _PILLOW))
    if folder not in sys.path:
        sys.path.append(folder)
    image = import_module("PIL.Image")
    made = BytesIO()
    image.open(BytesIO(content)).convert("RGB").quantize(_COLOURS).save(made, "png", optimize=True)
    return made.getvalue()
