"""The page where a person decides whether a program may act for them."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from html import escape

from aiohttp import web

from clusterra_gateway.accounts.records import Member
from clusterra_gateway.accounts.roles import Scope
from clusterra_gateway.http.page import page

_MEANINGS: Mapping[Scope, str] = {
    "profile": "read your profile, list and revoke your tokens",
    "clusters:read": "read clusters and their queues",
    "jobs:read": "read jobs and their output",
    "jobs:write": "submit, change and cancel jobs",
    "events:read": "read events",
    "members:read": "read the members of your workspace and their tokens",
    "members:write": "change members, revoke their tokens, manage service accounts",
}


def consent_page(
    request: web.Request,
    member: Member,
    told: Mapping[str, str],
    scopes: Sequence[Scope],
    *,
    action: str,
    hidden: Mapping[str, str],
    form_target: str = "",
) -> web.Response:
    """Asks the person. `told` is what they recognise the program by, such as its machine, with a label for each.

    Their answer is a form to `action` with the `hidden` fields and `decision`, which is `approve` or `deny`.
    """
    rows = {"You": f"{member.user} ({member.email})", "Workspace": member.tenant, **told}
    facts = "".join(f"<dt>{escape(label)}</dt><dd>{escape(value)}</dd>" for label, value in rows.items())
    meanings = "".join(f"<li>{escape(_MEANINGS[scope])} (<code>{scope}</code>)</li>" for scope in scopes)
    body = (
        f"<p>A program asks to act for you. Approve it only if you have just started it yourself.</p><dl>{facts}</dl>"
        f"<p>It may:</p><ul>{meanings}</ul>"
        f'<form method="post" action="{escape(action)}">{_fields(hidden)}'
        '<button name="decision" value="approve">Approve</button>'
        '<button name="decision" value="deny">Deny</button></form>'
    )
    return page(request, "Sign in a program", body, form_target=form_target)


def lifetime(seconds: int) -> str:
    """A time for people, such as `30 days`."""
    return str(timedelta(seconds=seconds)).removesuffix(", 0:00:00")


def _fields(hidden: Mapping[str, str]) -> str:
    return "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">' for name, value in hidden.items()
    )
