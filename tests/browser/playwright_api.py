"""Playwright inside the test process: the one place where its untyped API enters.

It is not a package of this environment, but in a folder of the cache, which tests share with `chromium.py`: only these
tests need it, and its wheel is larger than all other packages together that a developer installs. So mypy knows nothing
of it, and its types are names for readers.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from chromium import chromium, playwright

type Browser = Any
type Context = Any
type Locator = Any
type Page = Any
type Route = Any

WAIT_MILLISECONDS = 90_000
"""The longest that anything may wait."""
_ARGUMENTS = (
    "--no-sandbox",
    # Nothing outside this machine has an address, whatever a page asks for.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)


@asynccontextmanager
async def running_browser() -> AsyncIterator[Browser]:
    """Run Chromium until the block ends. Skips the test where there is none."""
    program = await chromium()
    folder = str(await playwright())
    if folder not in sys.path:
        # At the end: what both have, such as typing_extensions, is that of this environment.
        sys.path.append(folder)
    api = import_module("playwright.async_api")
    api.expect.set_options(timeout=WAIT_MILLISECONDS)
    async with api.async_playwright() as started:
        browser = await started.chromium.launch(executable_path=program, args=_ARGUMENTS)
        try:
            yield browser
        finally:
            await browser.close()


def expect(actual: Page | Locator) -> Any:
    """Playwright's assertions, which wait until they hold: `await expect(page.get_by_role("main")).to_be_visible()`."""
    return import_module("playwright.async_api").expect(actual)


def playwright_error() -> type[Exception]:
    """What Playwright raises for a page that is closed, has crashed, or does not answer in time."""
    error: type[Exception] = import_module("playwright.async_api").Error
    return error
