"""The routes of sign-in, the caller's profile and their API tokens."""

from clusterra_gateway.http.route import Named, PublicRoute, Route
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY
from clusterra_gateway.identity.access import Access
from clusterra_gateway.identity.login import (
    ISSUER_NAME,
    AcceptInvitation,
    Callback,
    Login,
    LoginAddress,
    LoginQuery,
    ServedIssuerList,
    SignedIn,
)
from clusterra_gateway.identity.private_route import CallerRoute
from clusterra_gateway.identity.profile import Profile, Profiles
from clusterra_gateway.identity.tokens import TOKEN_ID, ApiTokens, MadeToken, NewToken, Tokens

ME = "/v1/users/me"
TOKENS = f"{ME}/tokens"
TOKEN = f"{TOKENS}/{{token_id}}"


def routes(access: Access, login: Login, profiles: Profiles, api_tokens: ApiTokens) -> tuple[Route, ...]:
    """All routes of this room."""
    return (
        PublicRoute("auth_login", "GET", "/v1/auth/login", login.begin, status=302, query=LoginQuery),
        PublicRoute(
            "auth_login_invited",
            "POST",
            "/v1/auth/login",
            login.begin_invited,
            body=AcceptInvitation,
            result=LoginAddress,
        ),
        PublicRoute(
            "auth_callback_redirect", "GET", "/v1/auth/callback", login.callback_redirect, status=303, query=Callback
        ),
        PublicRoute(
            "auth_callback_of_issuer",
            "GET",
            "/v1/auth/callback/{issuer_name}",
            login.callback_redirect,
            status=303,
            parameters=(ISSUER_NAME,),
            query=Callback,
        ),
        PublicRoute("auth_issuers", "GET", "/v1/auth/issuers", login.issuers, result=ServedIssuerList),
        PublicRoute("auth_callback", "POST", "/v1/auth/callback", login.callback, body=Callback, result=SignedIn),
        CallerRoute("auth_logout", "POST", "/v1/auth/logout", login.logout, access=access, scope="profile", status=204),
        CallerRoute("users_me", "GET", ME, profiles.me, access=access, scope="profile", result=Profile),
        CallerRoute(
            "tokens_list",
            "GET",
            TOKENS,
            api_tokens.list,
            access=access,
            scope="profile",
            result=Tokens,
            names=(Named(TOKEN, "/tokens/0/id"),),
        ),
        CallerRoute(
            "tokens_make",
            "POST",
            TOKENS,
            api_tokens.make,
            access=access,
            scope="profile",
            status=201,
            parameters=(IDEMPOTENCY_KEY,),
            body=NewToken,
            result=MadeToken,
            names=(Named(TOKEN, "/id"),),
        ),
        CallerRoute(
            "tokens_revoke",
            "DELETE",
            TOKEN,
            api_tokens.revoke,
            access=access,
            scope="profile",
            status=204,
            parameters=(TOKEN_ID,),
        ),
    )
