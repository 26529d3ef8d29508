"""The routes of the device flow."""

from clusterra_runtime.store.store import Store

from clusterra_gateway.device_flow.flows import DeviceFlows
from clusterra_gateway.device_flow.person_side import CONSENT, CodeQuery, Decision, PersonSide
from clusterra_gateway.device_flow.program_side import DEVICE, DeviceAnswer, DevicePoll, ProgramSide
from clusterra_gateway.http.form_body import FORM
from clusterra_gateway.http.route import Route
from clusterra_gateway.identity.access import Access
from clusterra_gateway.oauth.grants import ProgramTokens
from clusterra_gateway.oauth.program import ProgramRequest, TokenAnswer
from clusterra_gateway.oauth.route import OAuthRoute, PageRoute


def routes(access: Access, store: Store, tokens: ProgramTokens, public_url: str) -> tuple[Route, ...]:
    """All routes of this room."""
    flows = DeviceFlows(store)
    program, person = ProgramSide(flows, tokens, public_url), PersonSide(flows, tokens)
    return (
        OAuthRoute(
            "device_begin", "POST", DEVICE, program.begin, body=ProgramRequest, body_type=FORM, result=DeviceAnswer
        ),
        OAuthRoute(
            "device_token",
            "POST",
            f"{DEVICE}/token",
            program.poll,
            body=DevicePoll,
            body_type=FORM,
            result=TokenAnswer,
        ),
        PageRoute(
            "device_page",
            "GET",
            DEVICE,
            person.show,
            access=access,
            page=DEVICE,
            query=CodeQuery,
            result="text/html",
        ),
        PageRoute(
            "device_consent",
            "POST",
            CONSENT,
            person.decide,
            access=access,
            page=DEVICE,
            body=Decision,
            body_type=FORM,
            result="text/html",
        ),
    )
