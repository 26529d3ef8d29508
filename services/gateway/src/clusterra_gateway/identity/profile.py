"""The caller's profile: the handler of `/v1/users/me`."""

import structlog
from aiohttp import web
from clusterra_contracts.identity import Moment
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.records import MemberKind
from clusterra_gateway.accounts.roles import Role
from clusterra_gateway.bus.requests import ScalerRequests
from clusterra_gateway.http.responses import ResponseBody, json_response
from clusterra_gateway.identity.authentication import Caller

log = structlog.get_logger()


class Workspace(ResponseBody):
    """The caller's tenant."""

    id: str
    name: str


class Profile(ResponseBody):
    """The caller. `name` and `uid` are their Slurm identity. The costs are null when they are not known now."""

    id: str
    name: str
    uid: int
    email: str
    display_name: str
    tenant: Workspace
    role: Role
    burn_rate_usd_per_hour: float | None
    pending_bill_usd: float | None
    running_jobs: int | None
    session_expires_at: Moment
    kind: MemberKind


class Profiles:
    """The handler of the profile."""

    def __init__(self, directory: Directory, scaler: ScalerRequests) -> None:
        self._directory = directory
        self._scaler = scaler

    async def me(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Returns the caller's profile, with the cost of their running jobs."""
        member = caller.member
        tenant = await self._directory.tenant(caller.tenant)
        try:
            usage = await self._scaler.usage(caller.tenant, member.uid)
        except RpcFailed as failed:
            log.info("usage_unknown", tenant=member.tenant, reason=failed.error.detail)
            usage = None
        return json_response(
            Profile(
                id=member.id,
                name=member.user,
                uid=member.uid,
                email=member.email,
                display_name=member.display_name,
                tenant=Workspace(id=member.tenant, name=tenant.name if tenant else member.tenant),
                role=member.role,
                burn_rate_usd_per_hour=usage.burn_rate_usd_per_hour if usage else None,
                pending_bill_usd=usage.pending_bill_usd if usage else None,
                running_jobs=usage.running_jobs if usage else None,
                session_expires_at=caller.expires_at,
                kind=member.kind,
            )
        )
