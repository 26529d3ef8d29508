"""Revokes a credential on this replica as soon as the bus reports its revocation on any replica.

The gateway trusts a verified credential for 15 s (`access.credentials`). That is the bound if no message arrives. The
live events of a tenant's clusters tell all replicas. `RevocationMessages` tell every sign-out, and all else of a tenant
that has no cluster, or very many. So a revoked token, an ended session, a lost role and a disabled member count within
a second, for open streams too.
"""

from clusterra_contracts.events import AdminFact, Event
from clusterra_contracts.identity import ClusterRef, TenantRef
from clusterra_contracts.revocation import Revocation
from clusterra_runtime.nats.registry import Registry

from clusterra_gateway.accounts.admin_events import are_told_at_once
from clusterra_gateway.bus.revocation_messages import RevocationMessages
from clusterra_gateway.identity.access.authentication import Authentication
from clusterra_gateway.identity.access.limits import OpenStreams

KINDS = frozenset({"token.revoked", "token.rotated", "member.changed", "member.deleted"})
"""The kinds of events after which a credential allows less than before."""


class Revocations:
    """Applies revocations of this and other replicas here, and sends those to other replicas that no event reports."""

    def __init__(
        self, authentication: Authentication, streams: OpenStreams, messages: RevocationMessages, registry: Registry
    ) -> None:
        self._authentication = authentication
        self._streams = streams
        self._messages = messages
        self._registry = registry

    def on_event(self, ref: ClusterRef, event: Event) -> None:
        """Follows a change that the event of another replica tells."""
        tenant = TenantRef(tenant=ref.tenant)
        match event.data:
            case AdminFact(kind="token.revoked" | "token.rotated", subject=token_id):
                self.on_revocation(tenant, Revocation(of="token", subject=token_id))
            case AdminFact(kind="member.changed" | "member.deleted", subject=user):
                self.on_revocation(tenant, Revocation(of="member", subject=user))

    def on_revocation(self, ref: TenantRef, revocation: Revocation) -> None:
        """Makes the credentials be verified again, by their next requests and by the open streams of the tenant."""
        match revocation.of:
            case "token":
                self._authentication.forget(revocation.subject)
            case "member":
                self._authentication.forget_member(ref.tenant, revocation.subject)
        self._streams.recheck(ref.tenant)

    async def token_revoked(self, tenant: str, token_id: str) -> None:
        """Makes this token, which was revoked or rotated here, be verified again on all replicas."""
        await self._taken(TenantRef(tenant=tenant), Revocation(of="token", subject=token_id))

    async def signed_out(self, tenant: str, session_id: str) -> None:
        """Makes this session, which was signed out here, be verified again on all replicas. No event tells it."""
        ref, revocation = TenantRef(tenant=tenant), Revocation(of="token", subject=session_id)
        self.on_revocation(ref, revocation)
        await self._messages.tell(ref, revocation)

    async def member_changed(self, tenant: str, user: str) -> None:
        """Makes the credentials of this member, who was changed here, be verified again on all replicas."""
        await self._taken(TenantRef(tenant=tenant), Revocation(of="member", subject=user))

    async def _taken(self, ref: TenantRef, revocation: Revocation) -> None:
        self.on_revocation(ref, revocation)
        if not are_told_at_once(sum(cluster.tenant == ref.tenant for cluster in self._registry.clusters)):
            await self._messages.tell(ref, revocation)
