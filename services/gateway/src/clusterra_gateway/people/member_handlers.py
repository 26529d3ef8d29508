"""The routes of a tenant's members, and of everybody's tokens and keys, for its admins."""

import asyncio
from contextlib import suppress
from itertools import batched
from typing import Annotated

from aiohttp import web
from clusterra_contracts.identity import Moment, UserName
from pydantic import Field, StrictBool

from clusterra_gateway.accounts.directory import READS_AT_ONCE
from clusterra_gateway.accounts.records import Member, MemberKind
from clusterra_gateway.accounts.roles import Role
from clusterra_gateway.http.answers.responses import ResponseBody, json_response, no_content
from clusterra_gateway.http.requests.errors import NotFound
from clusterra_gateway.http.requests.parameters import Body, Parameter, Query, body, path_id, query
from clusterra_gateway.http.routes.route import Named
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, caller_routes
from clusterra_gateway.identity.tokens.token_records import TokenRecords
from clusterra_gateway.identity.tokens.tokens import TOKEN_ID, Token, Tokens
from clusterra_gateway.people.membership import MemberChange, Membership

MEMBER_ID = Parameter("member_id", "path", "^[0-9a-f]{32}$")


MEMBERS = "/v1/members"
MEMBER = f"{MEMBERS}/{{member_id}}"
TOKENS = f"{MEMBER}/tokens"
TOKEN = f"{TOKENS}/{{token_id}}"
api = caller_routes(MEMBER_ID, TOKEN_ID, reads=Needs("members:read", "admin"), changes=Needs("members:write", "admin"))


class MembersQuery(Query):
    """Which part of the list."""

    limit: Annotated[int, Field(ge=1, le=200)] = 100
    cursor: str | None = None


class MemberView(ResponseBody):
    """A member: a person or a service account. `name` and `uid` are their Slurm identity."""

    id: str
    name: str
    uid: int
    email: str
    display_name: str
    role: Role
    disabled: bool
    joined_at: Moment
    kind: MemberKind

    @classmethod
    def of(cls, member: Member) -> "MemberView":
        """What others of the tenant see of a member."""
        return cls(
            id=member.id,
            name=member.user,
            uid=member.uid,
            email=member.email,
            display_name=member.display_name,
            role=member.role,
            disabled=member.disabled,
            joined_at=member.joined_at,
            kind=member.kind,
        )


class MemberPage(ResponseBody):
    """Members in the order of their names. `next_cursor` reads on; null at the end."""

    members: tuple[MemberView, ...]
    next_cursor: str | None


class ChangeMember(Body):
    """What to change; a field that is missing or null stays as it is."""

    role: Role | None = None
    disabled: StrictBool | None = None


class MemberHandlers:
    """The handlers of members."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership

    @api.get("members_list", MEMBERS, query=MembersQuery, result=MemberPage, names=(Named(MEMBER, "/members/0/id"),))
    async def list(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the members of the caller's tenant."""
        wanted = query(request, MembersQuery)
        members, cursor = await self._membership.page(caller.member.tenant, limit=wanted.limit, cursor=wanted.cursor)
        return json_response(MemberPage(members=tuple(map(MemberView.of, members)), next_cursor=cursor))

    @api.get("members_get", MEMBER, result=MemberView)
    async def get(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Returns a member of the caller's tenant."""
        member = await self._membership.member(caller.member.tenant, path_id(request, MEMBER_ID))
        return json_response(MemberView.of(member))

    @api.patch("members_change", MEMBER, body=ChangeMember, result=MemberView)
    async def change(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Gives a member another role, or disables or enables them.

        It holds for every credential of theirs within a second, on all replicas; their open streams end. Jobs that run
        go on. Only an owner makes or changes an owner. The last member who manages the tenant stays so.
        """
        wanted = await body(request, ChangeMember)
        change = MemberChange(wanted.role, wanted.disabled)
        member = await self._membership.change(caller.member, path_id(request, MEMBER_ID), change)
        return json_response(MemberView.of(member))


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

    def __init__(self, membership: Membership, records: TokenRecords) -> None:
        self._membership = membership
        self._records = records

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
        member = await self._member(request, caller)
        await self._records.revoke(caller.member, member.id, path_id(request, TOKEN_ID))
        return no_content()

    @api.delete("members_tokens_revoke_all", TOKENS)
    async def revoke_all(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Revokes all tokens of a member, one after the other. Their sessions stay: disable the member to end those."""
        member = await self._member(request, caller)
        for token_id, _ in await self._records.valid(member.id):
            with suppress(NotFound):  # it has ended meanwhile
                await self._records.revoke(caller.member, member.id, token_id)
        return no_content()

    async def _member(self, request: web.Request, caller: Caller) -> Member:
        return await self._membership.member(caller.member.tenant, path_id(request, MEMBER_ID))
