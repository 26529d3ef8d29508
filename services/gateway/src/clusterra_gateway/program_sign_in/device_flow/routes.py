"""The routes of the device flow."""

from clusterra_gateway.http.form_body import FORM
from clusterra_gateway.http.route import Route
from clusterra_gateway.identity.access import Access
from clusterra_gateway.program_sign_in.device_flow.flows import DeviceFlows
from clusterra_gateway.program_sign_in.device_flow.person_side import CONSENT, CodeQuery, Decision, PersonSide
from clusterra_gateway.program_sign_in.device_flow.program_side import DeviceAnswer, ProgramSide
from clusterra_gateway.program_sign_in.oauth.grants import ProgramTokens
from clusterra_gateway.program_sign_in.oauth.program import ProgramRequest
from clusterra_gateway.program_sign_in.oauth.route import OAuthRoute, PageRoute
from clusterra_gateway.program_sign_in.oauth.server_metadata import DEVICE


def routes(access: Access, flows: DeviceFlows, tokens: ProgramTokens, program: ProgramSide) -> tuple[Route, ...]:
    """All routes of this room."""
    person = PersonSide(flows, tokens)
    return (
        OAuthRoute(
            "device_begin", "POST", DEVICE, program.begin, body=ProgramRequest, body_type=FORM, result=DeviceAnswer
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
