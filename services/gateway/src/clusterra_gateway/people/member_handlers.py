"""The routes of a tenant's members."""

from typing import Annotated

from aiohttp import web
from clusterra_contracts.identity import Moment
from pydantic import Field, StrictBool

from clusterra_gateway.accounts.records import Member, MemberKind
from clusterra_gateway.accounts.roles import Role
from clusterra_gateway.http.answers.responses import ResponseBody, json_response
from clusterra_gateway.http.requests.parameters import Body, Query, body, path_id, query
from clusterra_gateway.http.routes.route import Named
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, caller_routes
from clusterra_gateway.identity.tokens.revocations import Revocations
from clusterra_gateway.people.member_tokens import MEMBER, MEMBER_ID, MEMBERS
from clusterra_gateway.people.membership import MemberChange, Membership

api = caller_routes(MEMBER_ID, reads=Needs("members:read", "admin"), changes=Needs("members:write", "admin"))


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

    def __init__(self, membership: Membership, revocations: Revocations) -> None:
        self._membership = membership
        self._revocations = revocations

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
        await self._revocations.member_changed(member.tenant, member.user)
        return json_response(MemberView.of(member))
