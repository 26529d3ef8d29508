"""The routes that all ways to sign in a program share."""

from clusterra_gateway.http.form_body import FORM
from clusterra_gateway.http.route import PublicRoute, Route
from clusterra_gateway.program_sign_in.oauth.program import TokenAnswer
from clusterra_gateway.program_sign_in.oauth.route import OAuthRoute
from clusterra_gateway.program_sign_in.oauth.server_metadata import DEVICE, METADATA, ServerDescription, ServerMetadata
from clusterra_gateway.program_sign_in.oauth.token_endpoint import TOKEN, DeviceGrant, TokenEndpoint, TokenRequest


def routes(endpoint: TokenEndpoint, description: ServerDescription) -> tuple[Route, ...]:
    """All routes of this room."""
    return (
        OAuthRoute("auth_token", "POST", TOKEN, endpoint.redeem, body=TokenRequest, body_type=FORM, result=TokenAnswer),
        OAuthRoute(
            "device_token",
            "POST",
            f"{DEVICE}/token",
            endpoint.redeem,
            body=DeviceGrant,
            body_type=FORM,
            result=TokenAnswer,
        ),
        PublicRoute("oauth_metadata", "GET", METADATA, description.show, result=ServerMetadata),
    )
