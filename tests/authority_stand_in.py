"""Stands in for the authority in a lab, whose NATS has no accounts. admin/tests/test_authority.py has the real one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from clusterra_contracts.identity import TenantRef, now
from clusterra_contracts.rpc.bus_logins import BusLogin, RevokeBusLogins, SignBusLogin
from clusterra_contracts.rpc.reply import Done
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.rpc import serve_tenant


@asynccontextmanager
async def signing(client: Client, tenant: str = "acme") -> AsyncIterator[None]:
    """Logins of a tenant are signed and revoked until the block ends."""
    served = [
        await serve_tenant(client, f"bus-login.{tenant}", SignBusLogin, _sign),
        await serve_tenant(client, f"bus-revocation.{tenant}", RevokeBusLogins, _revoke),
    ]
    try:
        yield
    finally:
        for each in served:
            await each.unsubscribe()


async def _sign(ref: TenantRef, request: SignBusLogin) -> BusLogin:
    expires_at = now() + timedelta(seconds=request.lifetime_seconds)
    return BusLogin(jwt="a.signed.login", account="A" * 56, subject=f"event.{ref.tenant}.>", expires_at=expires_at)


async def _revoke(_ref: TenantRef, _request: RevokeBusLogins) -> Done:
    return Done()
