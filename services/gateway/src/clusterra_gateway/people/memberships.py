"""The routes of the caller's memberships: which tenants they belong to, and for which one their session is."""

from aiohttp import web
from clusterra_contracts.identity import Moment, TenantRef

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.records import Member
from clusterra_gateway.accounts.roles import Role
from clusterra_gateway.http.answers.responses import ResponseBody, json_response
from clusterra_gateway.http.requests.errors import Forbidden, NotFound
from clusterra_gateway.http.requests.parameters import Parameter, path_id
from clusterra_gateway.http.routes.route import Named
from clusterra_gateway.identity.access.authentication import Authentication, Caller
from clusterra_gateway.identity.access.cookies import Cookies
from clusterra_gateway.identity.access.private_route import Needs, caller_routes
from clusterra_gateway.identity.sign_in.profile import Workspace
from clusterra_gateway.identity.tokens.revocations import Revocations

MEMBERSHIPS = "/v1/users/me/memberships"
MEMBERSHIP = f"{MEMBERSHIPS}/{{tenant_id}}"
TENANT_ID = Parameter("tenant_id", "path", "^[a-z0-9][a-z0-9-]{0,38}$")


api = caller_routes(TENANT_ID, reads=Needs("profile"))


class MembershipView(ResponseBody):
    """The caller in one tenant. `name` and `uid` are their Slurm identity there, and `id` is their member id."""

    tenant: Workspace
    id: str
    name: str
    uid: int
    role: Role
    current: bool
    """Whether the credential of this request is for this tenant."""


class MembershipList(ResponseBody):
    """All tenants that the caller belongs to: first the one that they sign in to."""

    memberships: tuple[MembershipView, ...]
    total: int


class ChosenMembership(MembershipView):
    """The tenant that the session is for from now on, and the end of the session."""

    session_expires_at: Moment


class MembershipHandlers:
    """The handlers of memberships."""

    def __init__(
        self, directory: Directory, cookies: Cookies, authentication: Authentication, revocations: Revocations
    ) -> None:
        self._directory = directory
        self._cookies = cookies
        self._authentication = authentication
        self._revocations = revocations

    @api.get(
        "memberships_list", MEMBERSHIPS, result=MembershipList, names=(Named(MEMBERSHIP, "/memberships/0/tenant/id"),)
    )
    async def list(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the tenants that the caller belongs to, without those where they are disabled."""
        shown = [await self._view(each, caller.member) for each in await self._enabled(caller)]
        return json_response(MembershipList(memberships=tuple(shown), total=len(shown)))

    @api.post("memberships_choose", f"{MEMBERSHIP}/session", result=ChosenMembership)
    async def choose(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Replaces the session by one for another tenant of the caller, which ends when the old one would have.

        A session is for one tenant, and so is a token: nothing mixes what belongs to two.
        """
        wanted = path_id(request, TENANT_ID)
        if caller.credential != "session":
            raise Forbidden("a token is for one workspace", hint="make a token in the other one")
        member = next((each for each in await self._enabled(caller) if each.tenant == wanted), None)
        if member is None:
            raise NotFound("you do not belong to this workspace", hint=f"GET {MEMBERSHIPS} lists yours")
        session = self._cookies.session_instead(member.id, caller)
        view = await self._view(member, member)
        response = json_response(ChosenMembership(**view.model_dump(), session_expires_at=session.expires_at))
        await self._authentication.sign_out(caller)
        await self._revocations.signed_out(caller.member.tenant, caller.credential_id)
        self._cookies.set_session(response, session)
        return response

    async def _enabled(self, caller: Caller) -> tuple[Member, ...]:
        found = await self._directory.memberships(caller.member)
        return tuple(each for each in found if not each.disabled)

    async def _view(self, member: Member, current: Member) -> MembershipView:
        tenant = await self._directory.tenant(TenantRef(tenant=member.tenant))
        return MembershipView(
            tenant=Workspace(id=member.tenant, name=tenant.name if tenant else member.tenant),
            id=member.id,
            name=member.user,
            uid=member.uid,
            role=member.role,
            current=member.id == current.id,
        )
