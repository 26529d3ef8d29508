"""The caller's profile: the handler of `/v1/users/me`."""

import structlog
from aiohttp import web
from clusterra_contracts.identity import Moment
from clusterra_contracts.rpc.usage import Usage
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.records import Member, MemberKind
from clusterra_gateway.accounts.roles import Role
from clusterra_gateway.bus.requests import LedgerRequests
from clusterra_gateway.http.answers.responses import Money, ResponseBody, json_response, money
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, caller_routes
from clusterra_gateway.identity.access.unix_users import UnixUsers

log = structlog.get_logger()


ME = "/v1/users/me"
api = caller_routes(reads=Needs("profile"))


class Workspace(ResponseBody):
    """The caller's tenant."""

    id: str
    name: str


class Costs(ResponseBody):
    """What the caller's jobs cost, over all clusters, exactly. Months are those of UTC."""

    burn_rate_per_hour: Money | None
    """What the running jobs cost per hour."""
    pending_bill: Money | None
    """What the running jobs cost so far."""
    month_to_date: Money | None
    """What all jobs cost since the month began."""
    forecast: Money | None
    """The month to date, and what now runs until its known end or that of the month."""
    as_of: Moment | None
    """Until when costs are counted; null for a tenant without clusters."""
    stale: bool
    """Whether the edge has not confirmed a price for 90 s. The last one counts."""
    unknown: bool
    """Whether the price of some worker is unknown. The amounts do not contain it."""


class Profile(ResponseBody):
    """The caller. `name` and `uid` are their Slurm identity where Clusterra allocates it.

    The costs are null when they are not known now.
    """

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
    as_of: Moment | None
    """Until when the costs are counted."""
    costs: Costs | None
    session_expires_at: Moment
    kind: MemberKind


class Profiles:
    """The handler of the profile."""

    def __init__(self, directory: Directory, ledger: LedgerRequests, registry: Registry, unix_users: UnixUsers) -> None:
        self._directory = directory
        self._ledger = ledger
        self._registry = registry
        self._unix_users = unix_users

    @api.get("users_me", ME, result=Profile)
    async def me(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Returns the caller's profile, with the cost of their running jobs."""
        member = caller.member
        tenant = await self._directory.tenant(caller.tenant)
        try:
            usage = await self._ledger.usage(caller.tenant, member.uid, await self._mapped(member))
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
                as_of=usage.as_of if usage else None,
                costs=_costs(usage) if usage else None,
                session_expires_at=caller.expires_at,
                kind=member.kind,
            )
        )

    async def _mapped(self, member: Member) -> dict[str, int]:
        """Identity source -> the member's uid by it, for the clusters whose uids Clusterra does not allocate."""
        users = await self._unix_users.by_source(member, self._registry.clusters)
        return {source: user.uid for source, user in users.items() if source is not None}


def _costs(usage: Usage) -> Costs:
    return Costs(
        burn_rate_per_hour=money(usage.burn_rate_micro_usd_per_hour),
        pending_bill=money(usage.pending_bill_micro_usd),
        month_to_date=money(usage.month_to_date_micro_usd),
        forecast=money(usage.forecast_micro_usd),
        as_of=usage.as_of,
        stale=usage.stale,
        unknown=usage.unknown,
    )
