"""Drives a real browser over VS Code's page. It runs in an environment of its own, which has Playwright.

Arguments: the address of the page that opens the session, the path of Chromium, a file for the picture, and the cookies
for the address as JSON. It types a command into VS Code's terminal, waits until the explorer shows the file that the
command makes, and prints what the editor shows of that file. All of this goes over VS Code's WebSockets.
"""

import json
import sys
from contextlib import suppress

from playwright.sync_api import TimeoutError as TooLate  # type: ignore[import-not-found]
from playwright.sync_api import sync_playwright

TIMEOUT_MILLISECONDS = 90_000
ATTEMPTS = 20
FILE = "answer.txt"


def main(address: str, chromium: str, picture: str, cookies: str) -> None:
    """Open the session, run a command in its terminal, and print the first line of the file that it makes."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = browser.new_context()
        context.add_cookies(
            [{"name": name, "value": value, "url": address} for name, value in json.loads(cookies).items()]
        )
        page = context.new_page()
        page.set_default_timeout(TIMEOUT_MILLISECONDS)
        try:
            page.goto(address)
            page.get_by_role("button", name="Open").click()
            page.locator(".monaco-workbench").wait_for()
            page.locator(".explorer-folders-view").wait_for()
            page.keyboard.press("Control+Backquote")
            page.get_by_role("button", name="Trust Folder & Continue").click()
            terminal = page.locator(".terminal-wrapper.active .xterm-helper-textarea")
            terminal.wait_for(state="attached")
            shown = page.locator(".explorer-folders-view").get_by_text(FILE, exact=True)
            for _ in range(ATTEMPTS):
                # What is typed before the shell's prompt is lost.
                terminal.focus()
                page.keyboard.insert_text(f'echo "job $SLURM_JOB_ID ${{BASH_VERSION:+bash}}" > {FILE}')
                page.keyboard.press("Enter")
                with suppress(TooLate):
                    shown.wait_for(timeout=TIMEOUT_MILLISECONDS / ATTEMPTS)
                    break
            shown.dblclick()
            line = page.locator(".editor-instance .view-line").first
            line.wait_for()
            print(line.inner_text().replace("\xa0", " ").strip())
        finally:
            page.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
