"""The routes of the device flow: the program begins a sign-in and polls; the person enters the code and decides."""

from html import escape
from typing import Annotated, Literal

import structlog
from aiohttp import web
from pydantic import BaseModel, ConfigDict, StringConstraints

from clusterra_gateway.http.answers.responses import ResponseBody, json_response, page
from clusterra_gateway.http.requests.client_address import ClientAddresses
from clusterra_gateway.http.requests.parameters import Query, form, query
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.limits import RateLimits, Rates
from clusterra_gateway.identity.tokens.token_records import FreshToken
from clusterra_gateway.program_sign_in.consent_page import Question, consent_page, lifetime
from clusterra_gateway.program_sign_in.device_flows import (
    INTERVAL_SECONDS,
    VALID_SECONDS,
    DeviceFlows,
    KnownFlow,
    count_attempt,
    entered,
    shown,
)
from clusterra_gateway.program_sign_in.grants import ProgramTokens
from clusterra_gateway.program_sign_in.oauth_routes import DEVICE, oauth_routes, page_routes
from clusterra_gateway.program_sign_in.program import ProgramRequest
from clusterra_gateway.program_sign_in.token_endpoint import DeviceGrant

log = structlog.get_logger()

CONSENT = f"{DEVICE}/consent"

UserCode = Annotated[str, StringConstraints(max_length=32)]
BEGUN_PER_ADDRESS = 120
"""How many sign-ins an address may begin in a minute. With VALID_SECONDS, it bounds how many of them are open. The
address may be that of a load balancer, behind which all programs are."""


programs = oauth_routes()
people = page_routes(DEVICE)


class DeviceAnswer(ResponseBody):
    """A sign-in that was begun (RFC 8628, section 3.2)."""

    device_code: str
    """The program's own secret, with which it polls."""
    user_code: str
    """What the person enters at `verification_uri`."""
    verification_uri: str
    verification_uri_complete: str
    """The same page with the code entered already, for a link or a QR code."""
    expires_in: int
    """Seconds."""
    interval: int
    """The seconds to wait between two polls."""


class CodeQuery(Query):
    """The user code, from `verification_uri_complete`."""

    user_code: UserCode = ""


class Decision(BaseModel):
    """What the person enters: the code, and then their decision."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    user_code: UserCode = ""
    decision: Literal["look", "approve", "deny"] = "look"


class DeviceHandlers:
    """The handlers of programs and of the page, and what the token endpoint does for a device code."""

    def __init__(self, flows: DeviceFlows, tokens: ProgramTokens, issuer: str, addresses: ClientAddresses) -> None:
        self._addresses = addresses
        self._flows = flows
        self._tokens = tokens
        self._page = issuer + DEVICE
        self._begun = RateLimits(Rates(BEGUN_PER_ADDRESS, BEGUN_PER_ADDRESS))

    @programs.post("device_begin", DEVICE, body=ProgramRequest, result=DeviceAnswer)
    async def begin(self, request: web.Request) -> web.StreamResponse:
        """Begins the sign-in of a program on a machine without a browser (RFC 8628).

        Show the person `user_code` and `verification_uri`. They sign in there, see `machine` and the scopes, and
        approve or deny. Meanwhile poll `POST /v1/auth/token`.
        """
        self._begun.admit(request, self._addresses.network_of(request))
        wanted = await form(request, ProgramRequest)
        begun = await self._flows.begin(wanted)
        code = shown(begun.user_code)
        return json_response(
            DeviceAnswer(
                device_code=begun.device_code,
                user_code=code,
                verification_uri=self._page,
                verification_uri_complete=f"{self._page}?user_code={code}",
                expires_in=VALID_SECONDS,
                interval=INTERVAL_SECONDS,
            )
        )

    async def redeem(self, asked: DeviceGrant) -> FreshToken:
        """Makes the token of a sign-in, once, as soon as the person has approved it. Raises OAuthFailure."""
        known = await self._flows.approved(asked.device_code)
        return await self._tokens.issue(known.record, known.redeemed)

    @people.get("device_page", DEVICE, query=CodeQuery, result="text/html")
    async def show(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Shows the page where a person enters the code of a program that they sign in.

        Without a session, the browser is sent to sign in first. 404 for a code that no open sign-in has.
        """
        given = query(request, CodeQuery).user_code
        return await self._look(request, caller, given) if given else _code_page(request)

    @people.post("device_consent", CONSENT, body=Decision, result="text/html")
    async def decide(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Shows which program has the entered code, and takes the person's decision. The page's forms come here.

        404 for a code that no open sign-in has.
        """
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
        'spellcheck="false" aria-label="Code" placeholder="XXXX-XXXX"> <button>Continue</button></form>'
    )
    return page(request, "Sign in a program", body)
