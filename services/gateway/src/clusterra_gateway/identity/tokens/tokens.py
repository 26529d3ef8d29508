"""The caller's API tokens: the handlers of `/v1/users/me/tokens`."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from aiohttp import web
from clusterra_contracts.identity import Moment
from pydantic import Field, StringConstraints

from clusterra_gateway.accounts.records import ApiToken, Member
from clusterra_gateway.accounts.roles import SCOPES, Scope
from clusterra_gateway.http.answers.responses import ResponseBody, json_response, no_content
from clusterra_gateway.http.requests.errors import Forbidden
from clusterra_gateway.http.requests.parameters import Body, Parameter, body, path_id
from clusterra_gateway.http.routes.route import Named
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY
from clusterra_gateway.idempotency.once import AnswerOnce, ShownOnce
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, caller_routes
from clusterra_gateway.identity.tokens.token_records import FreshToken, TokenRecords

DAY = 86_400

TOKEN_ID = Parameter("token_id", "path", "^[0-9a-f]{16}$")


TOKENS = "/v1/users/me/tokens"
TOKEN = f"{TOKENS}/{{token_id}}"
api = caller_routes(TOKEN_ID, reads=Needs("profile"))


class NewToken(Body):
    """The request for a new token."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")]
    expires_in_seconds: Annotated[int, Field(ge=60, le=365 * DAY)] = 30 * DAY
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1, max_length=len(SCOPES))] | None = None
    """What the token may be used for; null for all that its owner may do."""


class Token(ResponseBody):
    """A token without its secret."""

    id: str
    name: str
    created_at: Moment
    expires_at: Moment
    scopes: tuple[Scope, ...] | None
    """What the token may be used for; null for all that its owner may do."""
    last_used_at: Moment | None = None
    """The beginning of the hour in which it was last used; null where it never was, or not since this is noted."""

    @classmethod
    def of(cls, token_id: str, record: ApiToken) -> "Token":
        """The stored token with this id."""
        return Token(
            id=token_id,
            name=record.name,
            created_at=record.created_at,
            expires_at=record.valid_until,
            scopes=record.scopes,
            last_used_at=record.last_used_at,
        )


class MadeToken(Token, ShownOnce):
    """A new token. `token` is the token itself, which is shown only this once."""

    token: str

    @classmethod
    def shown(cls, made: FreshToken) -> "MadeToken":
        """The token, for its owner."""
        return cls(**Token.of(made.id, made.record).model_dump(), token=made.text)


class Tokens(ResponseBody):
    """All tokens of a member."""

    tokens: tuple[Token, ...]
    total: int

    @classmethod
    def of(cls, records: Sequence[tuple[str, ApiToken]]) -> "Tokens":
        """The tokens with these ids and records."""
        tokens = tuple(Token.of(token_id, record) for token_id, record in records)
        return cls(tokens=tokens, total=len(tokens))


class ApiTokens:
    """The handlers of API tokens."""

    def __init__(self, records: TokenRecords, once: AnswerOnce) -> None:
        self._records = records
        self._once = once

    @api.get("tokens_list", TOKENS, result=Tokens, names=(Named(TOKEN, "/tokens/0/id"),))
    async def list(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the caller's tokens that are valid now."""
        return json_response(Tokens.of(await self._records.valid(caller.member.id)))

    @api.post(
        "tokens_make",
        TOKENS,
        status=201,
        parameters=(IDEMPOTENCY_KEY,),
        body=NewToken,
        result=MadeToken,
        names=(Named(TOKEN, "/id"),),
    )
    async def make(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Makes a token. This needs a session: a leaked token must not be able to make others that outlive it.

        With an Idempotency-Key that has made a token already, 409 names that token: its secret is not shown again.
        """
        wanted = await body(request, NewToken)
        if caller.credential != "session":
            raise Forbidden("a token cannot make tokens", hint="sign in and make it from there")
        return await self._once.answer(request, caller.owner_key, wanted, partial(self._make, caller.member, wanted))

    async def _make(self, member: Member, wanted: NewToken) -> MadeToken:
        made = FreshToken.made(member.id, wanted.name, seconds=wanted.expires_in_seconds, scopes=wanted.scopes)
        await self._records.add(member, member.id, made)
        return MadeToken.shown(made)

    @api.delete("tokens_revoke", TOKEN)
    async def revoke(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Revokes a token of the caller. It no longer works within a second, on all replicas."""
        await self._records.revoke(caller.member, caller.member.id, path_id(request, TOKEN_ID))
        return no_content()
