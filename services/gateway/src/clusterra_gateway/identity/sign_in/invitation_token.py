"""The token of an admin's invitation, which the admin hands to the invited person."""

import hmac
from dataclasses import dataclass
from typing import Self

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.http.requests.errors import Forbidden
from clusterra_gateway.identity.access.credentials import secret_hash

PREFIX = "clusterra-invitation"
PATTERN = rf"^{PREFIX}_[a-z0-9-]{{1,39}}_[0-9a-f]{{16}}_[A-Za-z0-9_-]{{20,64}}$"


@dataclass(frozen=True, slots=True)
class InvitationId:
    """Which invitation of which tenant. It proves nothing: a login keeps it after the secret was checked."""

    tenant: str
    id: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """The reverse of `str`."""
        tenant, _, invitation = text.partition("/")
        return cls(tenant, invitation)

    def __str__(self) -> str:
        return f"{self.tenant}/{self.id}"


def join_invitation(invitation: InvitationId, secret: str) -> str:
    """The token of an invitation, which its admin hands to the invited person."""
    return f"{PREFIX}_{invitation.tenant}_{invitation.id}_{secret}"


async def presented(directory: Directory, token: str) -> InvitationId:
    """The invitation with this token, which has PATTERN. Raises Forbidden for one that is wrong or no longer open."""
    _, tenant, invitation_id, secret = token.split("_", 3)
    record = await directory.sent_invitation(tenant, invitation_id)
    if record is None or not hmac.compare_digest(record.secret_hash, secret_hash(secret)):
        raise no_longer_open()
    return InvitationId(tenant, invitation_id)


def no_longer_open() -> Forbidden:
    """The answer to a wrong, expired, revoked or accepted invitation."""
    return Forbidden("this invitation is wrong, expired, revoked or accepted", hint="ask for a new one")
