"""Errors of the API in the words of the command line: a hint that names a route names the command in its place."""

import re
from collections.abc import Sequence

_ID = r"([A-Za-z0-9][A-Za-z0-9._-]*)"
_COMMANDS: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(rf"{route}(?![\w/?-])"), rf"`clusterra {command}`")
    for route, command in (
        ("GET /v1/clusters", "clusters"),
        (f"GET /v1/clusters/{_ID}/runs", "workflows list"),
        (r"GET \.\.\./files", "files ls"),
        (r"GET \.\.\./sessions", "sessions list"),
        ("GET /v1/members", "members list"),
        ("GET /v1/schedules", "schedules list"),
        ("GET /v1/service-accounts", "service-accounts list"),
        ("GET /v1/webhooks", "webhooks list"),
        ("GET /v1/bus-credentials", "bus-credentials list"),
        ("GET /v1/templates", "templates"),
        (f"GET /v1/templates/(?!schema){_ID}", r"templates \1"),
        (r"GET /v1/launchables\?kind=interactive", "templates"),
        (f"POST /v1/launchables/{_ID}/submit", r"launch \1"),
        ("GET /v1/budgets", "budgets"),
        ("GET /v1/quotas", "quota"),
    )
)
_LACKS_SCOPE = re.compile(r"this token lacks the scope ([a-z-]+:[a-z]+|[a-z]+)")
NO_CREDENTIAL = "no session cookie and no bearer token"
"""In the detail of the error for a request without any credential."""
SIGN_IN = "`clusterra login`"


def hint_of(detail: str, hint: str | None) -> str | None:
    """What can be done about an error, with commands in place of routes where there are such."""
    if lacking := _LACKS_SCOPE.match(detail):
        return f"sign in again with `clusterra login --scope {lacking[1]}`, and with a --scope for all else that you do"
    for route, command in _COMMANDS if hint else ():
        hint = route.sub(command, hint or "")
    return hint


def sign_in_text(detail: str, hint: str | None) -> str:
    """What is said to somebody who must sign in."""
    if NO_CREDENTIAL in detail:
        return f"you are not signed in: {SIGN_IN}"
    return "\n".join([detail, *([hint] if hint else ()), f"Sign in with {SIGN_IN}."])


def on_the_command_line(text: str) -> str:
    """An error of the SDK's settings, which names the argument of a call, with the option in its place."""
    return text.replace("give `cluster`,", "give --cluster,")
