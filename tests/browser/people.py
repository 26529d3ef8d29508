"""A person with a browser of their own."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.cookies import Morsel
from typing import Any

from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack

from browser.guards import Guards
from browser.playwright_api import WAIT_MILLISECONDS, Browser, Context, Page


@dataclass(frozen=True)
class Visitor:
    """A browser context with one page and its guards. Addresses are paths on the gateway."""

    context: Context
    page: Page
    guards: Guards

    async def sign_in(self, name: str, password: str) -> None:
        """Fill in and send the provider's form, which the page shows. What comes then is the caller's to wait for."""
        page = self.page
        await page.locator("input[type=text], input[type=email]").first.fill(name)
        await page.locator("input[type=password]").fill(password)
        await page.keyboard.press("Enter")


@dataclass(frozen=True)
class Member(Visitor):
    """A visitor who has signed in, with the API as the same session, to arrange what the pages show."""

    user: User


@asynccontextmanager
async def visiting(browser: Browser, lab: Stack, locale: str = "en-US") -> AsyncIterator[Visitor]:
    """A new visitor, who has not signed in, until the block ends."""
    guards = Guards({lab.gateway_url, lab.aws.endpoint_url})
    # Colours that change slowly have the contrast of neither theme meanwhile.
    context = await browser.new_context(base_url=lab.gateway_url, reduced_motion="reduce", locale=locale)
    try:
        context.set_default_timeout(WAIT_MILLISECONDS)
        await guards.watch(context)
        yield Visitor(context, await context.new_page(), guards)
    finally:
        await context.close()


@asynccontextmanager
async def signed_in(browser: Browser, lab: Stack, email: str, locale: str = "en-US") -> AsyncIterator[Member]:
    """A person with a session, which the lab has begun without the provider's pages, until the block ends."""
    async with lab.user(email) as user, visiting(browser, lab, locale) as visitor:
        await visitor.context.add_cookies(_cookies(user.session.cookie_jar, lab.gateway_url))
        yield Member(visitor.context, visitor.page, visitor.guards, user)


def _cookies(jar: Iterable[Morsel[str]], url: str) -> list[dict[str, Any]]:
    """The cookies as Playwright takes them."""
    return [
        {"name": each.key, "value": each.value, "url": url, "httpOnly": bool(each["httponly"]), "sameSite": "Lax"}
        for each in jar
    ]
