"""Signs logins, and revokes them. It keeps nothing: what is revoked stands in the account at the NATS servers."""

import asyncio
import time
from datetime import UTC, datetime

from clusterra_contracts.bus.permissions import integration
from clusterra_contracts.identity import TenantRef
from clusterra_contracts.rpc.bus_logins import BusLogin, RevokeBusLogins, SignBusLogin
from clusterra_contracts.rpc.reply import Done, RpcError
from clusterra_runtime.nats.client import BusUnavailable
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_admin.authority.accounts import (
    Revocations,
    account_claims,
    account_key,
    login_claims,
    revocations_of,
    revoked,
    revoked_until,
)
from clusterra_admin.authority.servers import AccountServers
from clusterra_admin.secrets import nats_jwt
from clusterra_admin.secrets.nats_jwt import Claims
from clusterra_admin.secrets.nkey import Key


class Authority:
    """The two requests. Both raise RpcFailed while the servers do not answer."""

    def __init__(self, key: Key, central: str, servers: AccountServers) -> None:
        """`central`: the public key of the account of the control plane."""
        self._key = key
        self._central = central
        self._servers = servers
        self._turn = asyncio.Lock()

    async def sign(self, ref: TenantRef, request: SignBusLogin) -> BusLogin:
        """A login for a key. The account of the tenant is made with its first one."""
        account, now = account_key(self._key, ref), int(time.time())
        known = await self._account(ref, account, None)
        claims = login_claims(ref, request, now)
        return BusLogin(
            jwt=nats_jwt.signed(claims, account, revoked_until(revocations_of(known), request.public_key)),
            account=account.public,
            subject=integration(ref, request.cluster).subscribe[0],
            expires_at=datetime.fromtimestamp(claims["exp"], UTC),
        )

    async def revoke(self, ref: TenantRef, request: RevokeBusLogins) -> Done:
        """Revokes the logins of keys until now. A tenant that never had one gets no account."""
        await self._account(ref, account_key(self._key, ref), request)
        return Done()

    async def _account(self, ref: TenantRef, account: Key, request: RevokeBusLogins | None) -> Claims | None:
        # One change at a time: each begins with what the servers have.
        async with self._turn:
            try:
                return await self._changed(ref, account, request)
            except BusUnavailable as error:
                raise RpcFailed(RpcError(kind="unavailable", detail=str(error), hint="try again in a moment")) from None

    async def _changed(self, ref: TenantRef, account: Key, request: RevokeBusLogins | None) -> Claims | None:
        known = await self._servers.claims(account.public)
        if known is None and request is not None:
            return None
        revocations: Revocations = revocations_of(known)
        if request is not None:
            revocations = revoked(revocations, request)
        claims = account_claims(ref, account.public, self._central, revocations)
        if known is None or known["nats"] != nats_jwt.versioned(claims)["nats"]:
            # The servers keep the JWT with the later time.
            await self._servers.replace(nats_jwt.signed(claims, self._key, known["iat"] if known else 0))
        return claims
