"""The routes of the sign-in by the browser."""

from clusterra_gateway.http.form_body import FORM
from clusterra_gateway.http.route import Route
from clusterra_gateway.identity.access import Access
from clusterra_gateway.program_sign_in.loopback.authorization_codes import AuthorizationCodes
from clusterra_gateway.program_sign_in.loopback.authorization_request import AuthorizationRequest
from clusterra_gateway.program_sign_in.loopback.person_side import CONSENT, AuthorizationDecision, PersonSide
from clusterra_gateway.program_sign_in.oauth.grants import ProgramTokens
from clusterra_gateway.program_sign_in.oauth.route import PageRoute
from clusterra_gateway.program_sign_in.oauth.server_metadata import AUTHORIZE


def routes(access: Access, codes: AuthorizationCodes, tokens: ProgramTokens, issuer: str) -> tuple[Route, ...]:
    """All routes of this room. `issuer`: the gateway's address, which it tells programs as its name."""
    person = PersonSide(codes, tokens, issuer)
    return (
        PageRoute(
            "authorize_page",
            "GET",
            AUTHORIZE,
            person.ask,
            access=access,
            page=AUTHORIZE,
            query=AuthorizationRequest,
            result="text/html",
        ),
        PageRoute(
            "authorize_consent",
            "POST",
            CONSENT,
            person.decide,
            access=access,
            page=AUTHORIZE,
            body=AuthorizationDecision,
            body_type=FORM,
            status=303,
        ),
    )
