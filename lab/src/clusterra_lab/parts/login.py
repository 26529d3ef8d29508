"""Plays the browser in an OpenID Connect login: opens the authorisation URL, submits the form, returns the callback."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

import aiohttp
from yarl import URL

from clusterra_lab.machine.problem import LabProblem

_MAX_PAGES = 10


class LoginRejected(LabProblem):
    """The provider did not send the browser back to the application."""


@dataclass
class _Form:
    action: str
    fields: dict[str, str] = field(default_factory=dict)
    user_field: str | None = None
    password_field: str | None = None


class _Forms(HTMLParser):
    """Parser that collects the forms of a page with their inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[_Form] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(_Form(attributes.get("action", "")))
        elif tag == "input" and self.forms and (name := attributes.get("name")):
            form = self.forms[-1]
            match attributes.get("type", "text"):
                case "password":
                    form.password_field = name
                case "text" | "email":
                    form.user_field = form.user_field or name
                case "hidden":
                    form.fields[name] = attributes.get("value", "")


@dataclass(frozen=True)
class _Page:
    url: URL
    status: int
    sends_to: URL | None
    text: str


async def _open(browser: aiohttp.ClientSession, url: URL, form: dict[str, str] | None = None) -> _Page:
    method = "GET" if form is None else "POST"
    async with browser.request(method, url, data=form, allow_redirects=False) as answer:
        redirected = answer.status in (301, 302, 303, 307, 308)
        target = answer.url.join(URL(answer.headers["Location"], encoded=True)) if redirected else None
        return _Page(answer.url, answer.status, target, await answer.text())


async def log_in(authorization_url: str, user: str, password: str) -> str:
    """Log in at the provider and return the URL that it redirects the browser to, with `code` and `state`.

    Raises LoginRejected when the provider does not accept the user, the password or the application.
    """
    provider = URL(authorization_url).origin()
    submitted = False
    # A provider of the lab has an IP address as its host; aiohttp keeps cookies of such hosts only with `unsafe`.
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        page = await _open(browser, URL(authorization_url))
        for _ in range(_MAX_PAGES):
            if page.sends_to is not None and page.sends_to.origin() != provider:
                return str(page.sends_to)
            if page.sends_to is not None:
                page = await _open(browser, page.sends_to)
            elif page.status == 200 and not submitted:
                form = _login_form(page.text)
                filled = {**form.fields, str(form.user_field): user, str(form.password_field): password}
                page = await _open(browser, page.url.join(URL(form.action)) if form.action else page.url, filled)
                submitted = True
            else:
                break
    what = f"the login of {user}" if submitted else "the authorisation request"
    raise LoginRejected(f"{provider} rejected {what} with HTTP {page.status}; the provider's log says why")


def _login_form(page: str) -> _Form:
    parser = _Forms()
    parser.feed(page)
    for form in parser.forms:
        if form.user_field and form.password_field:
            return form
    raise LoginRejected("the provider's page has no form with fields for user and password")
