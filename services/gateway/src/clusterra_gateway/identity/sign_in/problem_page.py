"""The page that a browser shows where a sign-in fails: what happened, what to do, and the way back to the sign-in."""

from html import escape
from urllib.parse import quote

from aiohttp import web

from clusterra_gateway.http.answers.middleware import request_id
from clusterra_gateway.http.answers.problems import problem_of
from clusterra_gateway.http.answers.responses import page
from clusterra_gateway.http.requests.errors import RequestError

_SIGN_IN = "/sign-in"
"""The console's page."""


def wants_page(request: web.Request) -> bool:
    """Whether this is a browser that was sent here: programs do not ask for HTML by name."""
    return "text/html" in request.headers.get("Accept", "")


def problem_page(request: web.Request, error: RequestError, return_to: str) -> web.Response:
    """The problem as a page, with the status and headers that it has otherwise.

    `return_to` is the path that the person wanted; empty if that is unknown.
    """
    problem = problem_of(error, request_id(request))
    plain = problem.response(error.retry_after_seconds)
    again = f"{_SIGN_IN}?return_to={quote(return_to, safe='')}" if return_to else _SIGN_IN
    hint = f"<p>{escape(_sentence(problem.hint))}</p>" if problem.hint else ""
    body = (
        f"<p>{escape(_sentence(problem.detail))}</p>{hint}"
        f'<p><a href="{escape(again)}">Go to sign-in</a></p>'
        f"<dl><dt>Request ID, for the operators</dt><dd><code>{escape(problem.request_id)}</code></dd></dl>"
    )
    response = page(request, "You are not signed in", body, status=problem.status)
    for name in ("Retry-After", "WWW-Authenticate"):
        if name in plain.headers:
            response.headers[name] = plain.headers[name]
    return response


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
