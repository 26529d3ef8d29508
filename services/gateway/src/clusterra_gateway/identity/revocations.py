"""Ends what a credential allows as soon as the bus tells that it was taken, on whichever replica that happened.

The gateway trusts a verified credential for 15 s (`credentials`). That bound holds where the event does not arrive.
With it, a revoked token, a lost role and a disabled member count within a second, for open streams too.
"""

from clusterra_contracts.events import AdminFact, Event
from clusterra_contracts.identity import ClusterRef

from clusterra_gateway.identity.authentication import Authentication
from clusterra_gateway.identity.open_streams import OpenStreams

KINDS = frozenset({"token.revoked", "token.rotated", "member.changed", "member.deleted"})
"""The kinds of events after which a credential allows less than before."""


class Revocations:
    """Tells this replica of what was taken, here or on another one."""

    def __init__(self, authentication: Authentication, streams: OpenStreams) -> None:
        self._authentication = authentication
        self._streams = streams

    def on_event(self, ref: ClusterRef, event: Event) -> None:
        """Follows a change that another replica made."""
        match event.data:
            case AdminFact(kind="token.revoked" | "token.rotated", subject=token_id):
                self.token_revoked(ref.tenant, token_id)
            case AdminFact(kind="member.changed" | "member.deleted", subject=user):
                self.member_changed(ref.tenant, user)

    def token_revoked(self, tenant: str, token_id: str) -> None:
        """Makes this token be verified again, by its next request and by the open streams of its tenant."""
        self._authentication.forget(token_id)
        self._streams.recheck(tenant)

    def member_changed(self, tenant: str, user: str) -> None:
        """Makes this member's credentials be verified again, likewise."""
        self._authentication.forget_member(tenant, user)
        self._streams.recheck(tenant)
