"""The routes of the sign-in by the browser."""

from clusterra_runtime.store.store import Store

from clusterra_gateway.http.form_body import FORM
from clusterra_gateway.http.route import Route
from clusterra_gateway.identity.access import Access
from clusterra_gateway.loopback.authorization_codes import AuthorizationCodes
from clusterra_gateway.loopback.authorization_request import AuthorizationRequest
from clusterra_gateway.loopback.person_side import AUTHORIZE, CONSENT, AuthorizationDecision, PersonSide
from clusterra_gateway.loopback.program_side import ProgramSide, TokenRequest
from clusterra_gateway.oauth.grants import ProgramTokens
from clusterra_gateway.oauth.program import TokenAnswer
from clusterra_gateway.oauth.route import OAuthRoute, PageRoute


def routes(access: Access, store: Store, tokens: ProgramTokens) -> tuple[Route, ...]:
    """All routes of this room."""
    codes = AuthorizationCodes(store)
    person, program = PersonSide(codes, tokens), ProgramSide(codes, tokens)
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
        OAuthRoute(
            "auth_token",
            "POST",
            "/v1/auth/token",
            program.redeem,
            body=TokenRequest,
            body_type=FORM,
            result=TokenAnswer,
        ),
    )
