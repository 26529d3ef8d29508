"""The device flow as the program sees it: it begins a sign-in, shows the user code, and polls for its token."""

from aiohttp import web

from clusterra_gateway.http.answers.responses import ResponseBody, json_response
from clusterra_gateway.http.requests.client_address import ClientAddresses
from clusterra_gateway.http.requests.errors import TooManyRequests
from clusterra_gateway.http.requests.form_body import form
from clusterra_gateway.identity.access.limits import RateLimits, Rates
from clusterra_gateway.identity.tokens.token_records import FreshToken
from clusterra_gateway.program_sign_in.device_flows import INTERVAL_SECONDS, VALID_SECONDS, DeviceFlows
from clusterra_gateway.program_sign_in.grants import ProgramTokens
from clusterra_gateway.program_sign_in.oauth_routes import DEVICE, oauth_routes
from clusterra_gateway.program_sign_in.program import ProgramRequest
from clusterra_gateway.program_sign_in.token_endpoint import DeviceGrant
from clusterra_gateway.program_sign_in.user_codes import shown

BEGUN_PER_MINUTE = 1200
"""How many sign-ins may begin at a replica in a minute. With VALID_SECONDS, it bounds how many are open."""
BEGUN_PER_ADDRESS = 120
"""An address may be that of a load balancer, behind which all programs are."""


api = oauth_routes()


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


class DeviceProgramSide:
    """The handlers of programs."""

    def __init__(self, flows: DeviceFlows, tokens: ProgramTokens, issuer: str, addresses: ClientAddresses) -> None:
        self._addresses = addresses
        self._flows = flows
        self._tokens = tokens
        self._page = issuer + DEVICE
        self._begun = RateLimits(Rates(BEGUN_PER_MINUTE, BEGUN_PER_MINUTE))
        self._begun_by_address = RateLimits(Rates(BEGUN_PER_ADDRESS, BEGUN_PER_ADDRESS))

    @api.post("device_begin", DEVICE, body=ProgramRequest, result=DeviceAnswer)
    async def begin(self, request: web.Request) -> web.StreamResponse:
        """Begins the sign-in of a program on a machine without a browser (RFC 8628).

        Show the person `user_code` and `verification_uri`. They sign in there, see `machine` and the scopes, and
        approve or deny. Meanwhile poll `POST /v1/auth/token`.
        """
        self._begun_by_address.admit(request, self._addresses.of(request))
        wanted = await form(request, ProgramRequest)
        await self._admit_to_all(request)
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

    async def _admit_to_all(self, request: web.Request) -> None:
        try:
            self._begun.admit(request, "everybody")
        except TooManyRequests as limit:
            raise TooManyRequests(
                "too many programs begin to sign in now",
                hint="try again in a minute",
                retry_after_seconds=limit.retry_after_seconds,
            ) from None

    async def redeem(self, asked: DeviceGrant) -> FreshToken:
        """Makes the token of a sign-in, once, as soon as the person has approved it. Raises OAuthFailure."""
        known = await self._flows.approved(asked.device_code)
        return await self._tokens.issue(known.record, known.redeemed)
