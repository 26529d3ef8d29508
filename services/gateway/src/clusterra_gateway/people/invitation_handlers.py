"""The routes of invitations, for admins and owners. `POST /v1/auth/login` accepts one."""

from functools import partial
from typing import Annotated, Literal

from aiohttp import web
from clusterra_contracts.identity import Moment
from pydantic import Field, StringConstraints

from clusterra_gateway.accounts.records import Member, SentInvitation
from clusterra_gateway.accounts.roles import Role
from clusterra_gateway.http.answers.responses import ResponseBody, json_response, no_content
from clusterra_gateway.http.requests.errors import Forbidden
from clusterra_gateway.http.requests.parameters import Body, Parameter, body, path_id
from clusterra_gateway.http.routes.route import Named
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY
from clusterra_gateway.idempotency.once import AnswerOnce, ShownOnce
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, caller_routes
from clusterra_gateway.identity.tokens.tokens import DAY
from clusterra_gateway.people.invitations import Invitations, Inviter

INVITATIONS = "/v1/invitations"
INVITATION = f"{INVITATIONS}/{{invitation_id}}"
INVITATION_ID = Parameter("invitation_id", "path", "^[0-9a-f]{16}$")
InvitedAddress = Annotated[
    str, StringConstraints(max_length=254, pattern=r"^[^@\s\x00-\x1f\x7f]{1,64}@[A-Za-z0-9.-]{1,253}$")
]
"""An e-mail address that may be invited. Its case does not count."""


api = caller_routes(INVITATION_ID, reads=Needs("members:read", "admin"), changes=Needs("members:write", "admin"))


class Invite(Body):
    """The request to invite an address."""

    email: InvitedAddress
    role: Literal["viewer", "member", "admin"] = "member"
    expires_in_seconds: Annotated[int, Field(ge=60, le=30 * DAY)] = 7 * DAY


class InvitationView(ResponseBody):
    """An open invitation, without its secret."""

    id: str
    email: str
    role: Role
    invited_by: str
    created_at: Moment
    expires_at: Moment

    @classmethod
    def of(cls, invitation_id: str, record: SentInvitation) -> "InvitationView":
        """What admins see of an invitation."""
        return cls(
            id=invitation_id,
            email=record.email,
            role=record.role,
            invited_by=record.invited_by,
            created_at=record.created_at,
            expires_at=record.valid_until,
        )


class MadeInvitation(InvitationView, ShownOnce):
    """A new invitation. `token` is what the invited person needs, and is shown only this once."""

    token: str


class InvitationList(ResponseBody):
    """All open invitations of a tenant."""

    invitations: tuple[InvitationView, ...]
    total: int


class InvitationHandlers:
    """The handlers of invitations."""

    def __init__(self, invitations: Invitations, once: AnswerOnce) -> None:
        self._invitations = invitations
        self._once = once

    @api.post(
        "invitations_create",
        INVITATIONS,
        status=201,
        parameters=(IDEMPOTENCY_KEY,),
        body=Invite,
        result=MadeInvitation,
        names=(Named(INVITATION, "/id"),),
    )
    async def create(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Invites an address to the caller's tenant. Hand the `token` to the person: nothing is sent by mail.

        The person accepts it with `POST /v1/auth/login`, once, and signs in with this address. This needs a session.

        With an Idempotency-Key that has made an invitation already, 409 names it: its token is not shown again.
        """
        wanted = await body(request, Invite)
        if caller.credential != "session":
            raise Forbidden("a token cannot invite people", hint="sign in and invite them from there")
        return await self._once.answer(request, caller.owner_key, wanted, partial(self._invite, caller.member, wanted))

    async def _invite(self, actor: Member, wanted: Invite) -> MadeInvitation:
        invitation_id, record, token = await self._invitations.create(
            Inviter.of(actor), wanted.email, wanted.role, seconds=wanted.expires_in_seconds
        )
        return MadeInvitation(**InvitationView.of(invitation_id, record).model_dump(), token=token)

    @api.get("invitations_list", INVITATIONS, result=InvitationList, names=(Named(INVITATION, "/invitations/0/id"),))
    async def list(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the invitations of the caller's tenant that can be accepted."""
        found = await self._invitations.open(caller.member.tenant)
        shown = tuple(InvitationView.of(*each) for each in found)
        return json_response(InvitationList(invitations=shown, total=len(shown)))

    @api.delete("invitations_revoke", INVITATION)
    async def revoke(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Revokes an invitation. A login that has begun with it no longer succeeds."""
        await self._invitations.revoke(Inviter.of(caller.member), path_id(request, INVITATION_ID))
        return no_content()
