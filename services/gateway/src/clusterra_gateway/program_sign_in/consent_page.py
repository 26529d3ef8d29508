"""The page where a person decides whether a program may act for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from html import escape

from aiohttp import web

from clusterra_gateway.accounts.records import Member
from clusterra_gateway.accounts.roles import Scope
from clusterra_gateway.http.answers.responses import page
from clusterra_gateway.program_sign_in.oauth_routes import DECISION

_MEANINGS: Mapping[Scope, str] = {
    "profile": "read your profile, list and revoke your tokens",
    "clusters:read": "read clusters and their queues",
    "clusters:write": "pause and resume clusters, make new agent keys",
    "jobs:read": "read jobs and their output",
    "jobs:write": "submit, change and cancel jobs",
    "events:read": "read events",
    "files:read": "read your files and the shared ones",
    "files:write": "upload, rename, copy and delete files",
    "members:read": "read the members of your workspace and their tokens",
    "members:write": "change members, revoke their tokens, manage service accounts",
    "webhooks:read": "read webhooks with their URLs, and their deliveries",
    "webhooks:write": "create, change and delete webhooks, which send everybody's events to other systems",
    "bus-credentials:read": "read which programs may subscribe to events",
    "bus-credentials:write": "let programs subscribe to everybody's events, and end that",
}


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked. Their answer is a form to `action` with the `hidden` fields and `decision`.

    `decision` is `approve` or `deny`. `form_target` is the origin that the answer to the form may lead to, if that is
    not our own.
    """

    told: Mapping[str, str]
    """What the person recognises the program by, such as its machine, with a label for each."""
    scopes: Sequence[Scope]
    action: str
    hidden: Mapping[str, str]
    form_target: str = ""


def consent_page(request: web.Request, member: Member, question: Question) -> web.Response:
    """Asks a person whether a program may act for them."""
    rows = {"You": f"{member.user} ({member.email})", "Workspace": member.tenant, **question.told}
    facts = "".join(f"<dt>{escape(label)}</dt><dd>{escape(value)}</dd>" for label, value in rows.items())
    meanings = "".join(f"<li>{escape(_MEANINGS[scope])} (<code>{scope}</code>)</li>" for scope in question.scopes)
    body = (
        f"<p>A program asks to act for you. Approve it only if you have just started it yourself.</p><dl>{facts}</dl>"
        f"<p>It may:</p><ul>{meanings}</ul>"
        f'<form method="post" action="{escape(question.action)}">{_fields(question.hidden)}'
        f'<button name="{DECISION}" value="approve">Approve</button>'
        f'<button name="{DECISION}" value="deny">Deny</button></form>'
    )
    return page(request, "Sign in a program", body, form_target=question.form_target)


def lifetime(seconds: int) -> str:
    """A time for people, such as `30 days`."""
    return str(timedelta(seconds=seconds)).removesuffix(", 0:00:00")


def _fields(hidden: Mapping[str, str]) -> str:
    return "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">' for name, value in hidden.items()
    )
