"""The device flow as the program sees it: it begins a sign-in, shows the user code, and polls for its token."""

from typing import Annotated, Literal

from aiohttp import web
from pydantic import BaseModel, ConfigDict, StringConstraints

from clusterra_gateway.device_flow.flows import INTERVAL_SECONDS, VALID_SECONDS, DeviceFlows
from clusterra_gateway.device_flow.user_codes import shown
from clusterra_gateway.http.form_body import form
from clusterra_gateway.http.responses import ResponseBody, json_response
from clusterra_gateway.identity.rate_limits import RateLimits, Rates
from clusterra_gateway.oauth.grants import ProgramTokens
from clusterra_gateway.oauth.program import ClientId, ProgramRequest, TokenAnswer

DEVICE = "/v1/auth/device"
GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code"
BEGUN_PER_MINUTE = 1200
"""How many sign-ins may begin at a replica in a minute. With VALID_SECONDS, it bounds how many are open."""
BEGUN_PER_ADDRESS = 120
POLLS_PER_ADDRESS = 3000
"""An address may be that of a load balancer, behind which all programs are."""


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


class DevicePoll(BaseModel):
    """The request for the token of a sign-in (RFC 8628, section 3.4)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    grant_type: Literal["urn:ietf:params:oauth:grant-type:device_code"]
    device_code: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    client_id: ClientId


class ProgramSide:
    """The handlers of programs."""

    def __init__(self, flows: DeviceFlows, tokens: ProgramTokens, public_url: str) -> None:
        self._flows = flows
        self._tokens = tokens
        self._page = f"{public_url.rstrip('/')}{DEVICE}"
        self._begun = RateLimits(Rates(BEGUN_PER_MINUTE, BEGUN_PER_MINUTE))
        self._begun_by_address = RateLimits(Rates(BEGUN_PER_ADDRESS, BEGUN_PER_ADDRESS))
        self._polls_by_address = RateLimits(Rates(POLLS_PER_ADDRESS, POLLS_PER_ADDRESS))

    async def begin(self, request: web.Request) -> web.StreamResponse:
        """Begins the sign-in of a program on a machine without a browser (RFC 8628).

        Show the person `user_code` and `verification_uri`. They sign in there, see `machine` and the scopes, and
        approve or deny. Meanwhile poll `POST /v1/auth/device/token`.
        """
        await self._begun_by_address.admit(request, str(request.remote))
        wanted = await form(request, ProgramRequest)
        await self._begun.admit(request, "everybody")
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

    async def poll(self, request: web.Request) -> web.StreamResponse:
        """Returns the API token of a sign-in, once, as soon as the person has approved it.

        Until then it answers `authorization_pending`; after `slow_down`, wait five seconds longer between two polls.
        The token has the asked scopes, and the name of the machine.
        """
        await self._polls_by_address.admit(request, str(request.remote))
        asked = await form(request, DevicePoll)
        known = await self._flows.approved(asked.device_code)
        made = await self._tokens.issue(known.record, known.redeemed)
        return json_response(TokenAnswer.of(made))
