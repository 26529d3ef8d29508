"""Signs a program in, in a real browser, as a person does. It runs in an environment of its own, which has Playwright.

Arguments: the path of Chromium, a file for a picture, the person's name at the provider, the file of the password, and
the address that the program opens. It prints the title of the page at the end.
"""

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright  # type: ignore[import-not-found]

TIMEOUT_MILLISECONDS = 90_000


def main(chromium: str, picture: str, person: str, password_file: str, address: str) -> None:
    """Log in at the provider, approve the program, and wait for the program's own page."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(TIMEOUT_MILLISECONDS)
        page.goto(address)
        try:
            page.locator("input[type=text], input[type=email]").first.fill(person)
            page.locator("input[type=password]").fill(Path(password_file).read_text().strip())
            page.keyboard.press("Enter")
            page.get_by_role("button", name="Approve").click()
            page.wait_for_url("http://127.0.0.1:*/**")
        finally:
            page.screenshot(path=picture)
        print(page.title())
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
