"""The gateway's requests to the authority about logins of integrations. Every method raises RpcFailed."""

from typing import Protocol

from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import TenantRef
from clusterra_contracts.rpc.bus_logins import BusLogin, RevokeBusLogins, SignBusLogin
from clusterra_contracts.rpc.reply import Done
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.rpc import call


class Signed(Protocol):
    """What a login is signed for."""

    @property
    def id(self) -> str:
        """Of the bus credential."""

    @property
    def public_key(self) -> str:
        """Of the user at NATS."""

    @property
    def cluster(self) -> str | None:
        """None: the whole tenant."""


class BusLoginRequests:
    """Signatures and revocations. The gateway has no key that signs."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def sign(self, tenant: str, credential: Signed, lifetime_seconds: int) -> BusLogin:
        """A new login for the key of a bus credential."""
        request = SignBusLogin(
            credential_id=credential.id,
            public_key=credential.public_key,
            cluster=credential.cluster,
            lifetime_seconds=lifetime_seconds,
        )
        return await call(self._client, subjects.bus_login(TenantRef(tenant=tenant)), request, BusLogin)

    async def revoke(self, tenant: str, *public_keys: str) -> None:
        """Revokes all logins of these keys until now."""
        await self._revoke(tenant, RevokeBusLogins(public_keys=public_keys))

    async def revoke_all(self, tenant: str) -> None:
        """Revokes all logins of a tenant until now."""
        await self._revoke(tenant, RevokeBusLogins(public_keys=(), every=True))

    async def _revoke(self, tenant: str, request: RevokeBusLogins) -> None:
        await call(self._client, subjects.bus_revocation(TenantRef(tenant=tenant)), request, Done)
