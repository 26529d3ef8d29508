"""Drives a real browser over a session's page. It runs in an environment of its own, which has Playwright.

Arguments: the address of the page that opens the session, the path of Chromium, a file for the picture, and the cookies
for the address as JSON. It prints what the kernel answers to 6 * 7 in JupyterLab's console.
"""

import json
import sys

from playwright.sync_api import sync_playwright  # type: ignore[import-not-found]

TIMEOUT_MILLISECONDS = 40_000


def main(address: str, chromium: str, picture: str, cookies: str) -> None:
    """Open the session, start a console by its card in the launcher, run a line, and print the result."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = browser.new_context()
        context.add_cookies(
            [{"name": name, "value": value, "url": address} for name, value in json.loads(cookies).items()]
        )
        page = context.new_page()
        page.set_default_timeout(TIMEOUT_MILLISECONDS)
        page.goto(address)
        page.get_by_role("button", name="Open").click()
        page.locator(".jp-LauncherCard[data-category='Console']").first.click()
        # The status bar tells what the kernel says of itself, so its WebSocket is open.
        page.get_by_text("| Idle").first.wait_for()
        page.locator(".jp-CodeConsole-input .cm-content").click()
        page.keyboard.type("6 * 7")
        page.keyboard.press("Shift+Enter")
        output = page.locator(".jp-OutputArea-executeResult .jp-OutputArea-output").last
        try:
            output.wait_for()
        finally:
            page.screenshot(path=picture)
        print(output.inner_text().strip())
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
