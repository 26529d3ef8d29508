"""The device flow as the person sees it: a page where they enter the code, and approve or deny."""

from html import escape
from typing import Annotated, Literal

import structlog
from aiohttp import web
from pydantic import BaseModel, ConfigDict, StringConstraints

from clusterra_gateway.http.answers.page import page
from clusterra_gateway.http.requests.form_body import form
from clusterra_gateway.http.requests.parameters import Query, query
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.program_sign_in.consent_page import Question, consent_page, lifetime
from clusterra_gateway.program_sign_in.device_flows import DeviceFlows, KnownFlow
from clusterra_gateway.program_sign_in.grants import ProgramTokens
from clusterra_gateway.program_sign_in.oauth_routes import DEVICE, page_routes
from clusterra_gateway.program_sign_in.user_codes import count_attempt, entered, shown

log = structlog.get_logger()

CONSENT = f"{DEVICE}/consent"

UserCode = Annotated[str, StringConstraints(max_length=32)]


api = page_routes(DEVICE)


class CodeQuery(Query):
    """The user code, from `verification_uri_complete`."""

    user_code: UserCode = ""


class Decision(BaseModel):
    """What the person enters: the code, and then their decision."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    user_code: UserCode = ""
    decision: Literal["look", "approve", "deny"] = "look"


class DevicePersonSide:
    """The handlers of the page."""

    def __init__(self, flows: DeviceFlows, tokens: ProgramTokens) -> None:
        self._flows = flows
        self._tokens = tokens

    @api.get("device_page", DEVICE, query=CodeQuery, result="text/html")
    async def show(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Shows the page where a person enters the code of a program that they sign in.

        Without a session, the browser is sent to sign in first.
        """
        given = query(request, CodeQuery).user_code
        return await self._look(request, caller, given) if given else _code_page(request)

    @api.post("device_consent", CONSENT, body=Decision, result="text/html")
    async def decide(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Shows which program has the entered code, and takes the person's decision. The page's forms come here."""
        given = await form(request, Decision)
        if given.decision == "look":
            return await self._look(request, caller, given.user_code)
        flow, approved = (await self._found(caller, given.user_code))[1], given.decision == "approve"
        if approved:
            await self._tokens.check_room(caller.member)
        await self._flows.decide(flow, caller.member, approved=approved)
        log.info("device_flow_decided", tenant=caller.member.tenant, user=caller.member.user, approved=approved)
        if not approved:
            return page(request, "Denied", "<p>The program was not signed in.</p>")
        machine = escape(flow.record.machine)
        return page(request, "Approved", f"<p>The program on {machine} is signed in within seconds.</p>")

    async def _look(self, request: web.Request, caller: Caller, given: str) -> web.StreamResponse:
        code, flow = await self._found(caller, given)
        told = {
            "The machine calls itself": flow.record.machine,
            "Its code": shown(code),
            "Begun at": f"{flow.record.begun_at:%Y-%m-%d %H:%M:%S} UTC",
            "Its token is valid for": lifetime(flow.record.token_seconds),
        }
        question = Question(told, flow.record.scopes, CONSENT, {"user_code": code})
        return consent_page(request, caller.member, question)

    async def _found(self, caller: Caller, given: str) -> tuple[str, KnownFlow]:
        code = entered(given)
        await count_attempt(self._flows.store, caller.member.id)
        return code, await self._flows.waiting(code)


def _code_page(request: web.Request) -> web.Response:
    body = (
        "<p>Enter the code that the program shows on its machine.</p>"
        f'<form method="post" action="{CONSENT}">'
        '<input name="user_code" maxlength="32" required autofocus autocomplete="off" autocapitalize="characters" '
        'spellcheck="false" aria-label="Code" placeholder="XXXX-XXXX"> <button>Go on</button></form>'
    )
    return page(request, "Sign in a program", body)
