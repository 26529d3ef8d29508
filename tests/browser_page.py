"""Drives a real browser over a session's page. It runs in an environment of its own, which has Playwright.

Arguments: the address with the ticket, the path of Chromium, and a file for the picture. It prints what the kernel
answers to 6 * 7 in JupyterLab's console.
"""

import sys

from playwright.sync_api import sync_playwright  # type: ignore[import-not-found]

TIMEOUT_MILLISECONDS = 40_000


def main(address: str, chromium: str, picture: str) -> None:
    """Open the session, start a console by its card in the launcher, run a line, and print the result."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(TIMEOUT_MILLISECONDS)
        page.goto(address)
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
