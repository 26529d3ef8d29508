"""The caller, and their tokens."""

from collections.abc import Sequence

from clusterra.exchange import Request, Steps
from clusterra.models import MadeToken, Profile, Token, Tokens
from clusterra.operations.api import Api, segment

ME = "/v1/users/me"
TOKENS = f"{ME}/tokens"
DAY_SECONDS = 86_400


def me(api: Api) -> Steps[Profile]:
    """The caller's profile."""
    return (yield from api.read(Profile, ME))


def tokens(api: Api) -> Steps[list[Token]]:
    """The caller's tokens that are valid now."""
    return list((yield from api.read(Tokens, TOKENS)).tokens)


def make_token(api: Api, name: str, scopes: Sequence[str] | None, days: float) -> Steps[MadeToken]:
    """Make a token."""
    body: dict[str, object] = {"name": name, "expires_in_seconds": round(days * DAY_SECONDS)}
    body |= {} if scopes is None else {"scopes": list(scopes)}
    return api.parsed(MadeToken, (yield from api.ask(Request("POST", TOKENS, body=body))))


def revoke_token(api: Api, token_id: str) -> Steps[None]:
    """Revoke a token."""
    yield from api.carried_out(Request("DELETE", f"{TOKENS}/{segment(token_id)}"))
