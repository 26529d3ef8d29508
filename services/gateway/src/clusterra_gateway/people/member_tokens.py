"""Everybody's tokens and keys, for the admins of a tenant: what exists, and its end."""

import asyncio
from contextlib import suppress
from itertools import batched
from typing import Annotated

import structlog
from aiohttp import web
from clusterra_contracts.identity import UserName
from pydantic import Field

from clusterra_gateway.accounts.records import Member, MemberKind
from clusterra_gateway.http.answers.responses import ResponseBody, json_response, no_content
from clusterra_gateway.http.requests.errors import NotFound
from clusterra_gateway.http.requests.parameters import Parameter, Query, path_id, query
from clusterra_gateway.http.routes.route import Named
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, caller_routes
from clusterra_gateway.identity.tokens.revocations import Revocations
from clusterra_gateway.identity.tokens.token_records import TokenRecords
from clusterra_gateway.identity.tokens.tokens import TOKEN_ID, Token, Tokens
from clusterra_gateway.people.membership import READS_AT_ONCE, Membership

log = structlog.get_logger()

MEMBER_ID = Parameter("member_id", "path", "^[0-9a-f]{32}$")


MEMBERS = "/v1/members"
MEMBER = f"{MEMBERS}/{{member_id}}"
TOKENS = f"{MEMBER}/tokens"
TOKEN = f"{TOKENS}/{{token_id}}"
api = caller_routes(MEMBER_ID, TOKEN_ID, reads=Needs("members:read", "admin"), changes=Needs("members:write", "admin"))


class TokensQuery(Query):
    """Which part of the list. `limit` counts members: a page has all tokens of each."""

    limit: Annotated[int, Field(ge=1, le=100)] = 50
    cursor: str | None = None


class OwnedToken(Token):
    """A token of a person, or a key of a service account, without its secret."""

    member_id: str
    member_name: UserName
    member_kind: MemberKind

    @classmethod
    def of_member(cls, member: Member, token: Token) -> "OwnedToken":
        """The token with its owner."""
        return cls(**token.model_dump(), member_id=member.id, member_name=member.user, member_kind=member.kind)


class TokenPage(ResponseBody):
    """Tokens in the order of their owners' names. `next_cursor` reads on; null at the end."""

    tokens: tuple[OwnedToken, ...]
    next_cursor: str | None


class TokenHandlers:
    """The handlers of members' tokens."""

    def __init__(self, membership: Membership, records: TokenRecords, revocations: Revocations) -> None:
        self._membership = membership
        self._records = records
        self._revocations = revocations

    @api.get("tenant_tokens", "/v1/tokens", query=TokensQuery, result=TokenPage)
    async def list(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the valid tokens of everybody in the caller's tenant, and the keys of its service accounts."""
        wanted = query(request, TokensQuery)
        members, cursor = await self._membership.page(caller.member.tenant, limit=wanted.limit, cursor=wanted.cursor)
        owned: list[OwnedToken] = []
        for some in batched(members, READS_AT_ONCE):
            found = await asyncio.gather(*(self._records.valid(member.id) for member in some))
            for member, records in zip(some, found, strict=True):
                owned += [OwnedToken.of_member(member, Token.of(*each)) for each in records]
        return json_response(TokenPage(tokens=tuple(owned), next_cursor=cursor))

    @api.get("members_tokens", TOKENS, result=Tokens, names=(Named(TOKEN, "/tokens/0/id"),))
    async def of_member(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists a member's tokens that are valid now."""
        member = await self._member(request, caller)
        return json_response(Tokens.of(await self._records.valid(member.id)))

    @api.delete("members_tokens_revoke", TOKEN)
    async def revoke(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Revokes a member's token. It no longer works within a second, on all replicas."""
        member, token_id = await self._member(request, caller), path_id(request, TOKEN_ID)
        await self._revoke(caller, member, token_id)
        return no_content()

    @api.delete("members_tokens_revoke_all", TOKENS)
    async def revoke_all(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Revokes all tokens of a member, one after the other. Their sessions stay: disable the member to end those."""
        member = await self._member(request, caller)
        for token_id, _ in await self._records.valid(member.id):
            with suppress(NotFound):  # it has ended meanwhile
                await self._revoke(caller, member, token_id)
        return no_content()

    async def _revoke(self, caller: Caller, member: Member, token_id: str) -> None:
        await self._records.revoke(caller.member, member.id, token_id)
        await self._revocations.token_revoked(member.tenant, token_id)
        log.info("api_key_revoked", owner=member.user, token_id=token_id)

    async def _member(self, request: web.Request, caller: Caller) -> Member:
        return await self._membership.member(caller.member.tenant, path_id(request, MEMBER_ID))
