"""Creates, lists and revokes the invitations of a tenant in the record."""

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

import structlog
from clusterra_contracts.events import AdminFact, AdminKind
from clusterra_contracts.identity import now
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent, Present
from clusterra_runtime.store.optimistic_write import write_optimistically
from clusterra_runtime.store.store import Delete, Put

from clusterra_gateway.accounts.admin_events import AuditedWrites
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import (
    ACCOUNTS,
    INVITATIONS,
    sent_invitation_id,
    sent_invitation_key,
    tenant_key,
)
from clusterra_gateway.accounts.records import Member, SentInvitation, expiry
from clusterra_gateway.accounts.roles import Role
from clusterra_gateway.http.requests.errors import Conflict, NotFound
from clusterra_gateway.identity.access.credentials import secret_hash
from clusterra_gateway.identity.sign_in.enrolment import InvitationId, join_invitation

log = structlog.get_logger()

MAX_INVITATIONS = 200
"""How many open ones a tenant may have."""


@dataclass(frozen=True, slots=True)
class Inviter:
    """Who invites into a tenant: one of its admins, or an operator of the platform."""

    tenant: str
    name: str
    """A user name, or an operator as events name them."""

    @classmethod
    def of(cls, admin: Member) -> Self:
        """An admin of the tenant."""
        return cls(admin.tenant, admin.user)


class Invitations:
    """The invitations of tenants. Every change is told in the events of the tenant's clusters, without the address."""

    def __init__(self, directory: Directory, registry: Registry) -> None:
        self._directory = directory
        self._writes = AuditedWrites(directory, registry)

    async def open(self, tenant: str) -> tuple[tuple[str, SentInvitation], ...]:
        """The ids and records of the invitations that can be accepted."""
        page = await self._directory.store.query(ACCOUNTS, tenant_key(tenant).pk, sort=INVITATIONS)
        return tuple((sent_invitation_id(item.key), SentInvitation.of(item)) for item in page.items)

    async def create(self, by: Inviter, email: str, role: Role, *, seconds: int) -> tuple[str, SentInvitation, str]:
        """Invites an address. Returns the invitation's id, its record, and its token, which is kept nowhere.

        Raises Conflict for more than a tenant may have.
        """
        invitation, secret, made_at = InvitationId(by.tenant, secrets.token_hex(8)), secrets.token_urlsafe(32), now()
        record = SentInvitation(
            email=email.lower(),
            role=role,
            secret_hash=secret_hash(secret),
            invited_by=by.name,
            created_at=made_at,
            valid_until=made_at + timedelta(seconds=seconds),
        )
        key = sent_invitation_key(by.tenant, invitation.id)
        put = Put(ACCOUNTS, key, record.attributes(), Absent(), expiry(record.valid_until))

        async def check() -> None:
            if len(await self.open(by.tenant)) >= MAX_INVITATIONS:
                raise Conflict(f"there are {MAX_INVITATIONS} open invitations, the most allowed", hint="revoke one")

        await self._write(by, "invitation.created", put, check)
        log.info("invitation_created", invitation_id=invitation.id, role=role)
        return invitation.id, record, join_invitation(invitation, secret)

    async def revoke(self, by: Inviter, invitation_id: str) -> None:
        """Makes an invitation unusable. Raises NotFound, Conflict."""
        key = sent_invitation_key(by.tenant, invitation_id)

        async def check() -> None:
            if await self._directory.store.get(ACCOUNTS, key) is None:
                raise NotFound("there is no such open invitation", hint="GET /v1/invitations lists them")

        await self._write(by, "invitation.revoked", Delete(ACCOUNTS, key, Present()), check)
        log.info("invitation_revoked", invitation_id=invitation_id)

    async def _write(
        self, by: Inviter, kind: AdminKind, write: Put | Delete, check: Callable[[], Awaitable[None]]
    ) -> None:
        """Applies the write with its event, unless `check` refuses. Raises Conflict, and what `check` raises.

        The tenant changes with each invitation, so that two cannot both be the last one allowed. It carries the events.
        """

        async def attempt() -> None:
            carrier = await self._directory.tenant_unchanged(by.tenant)
            await check()
            fact = AdminFact(kind=kind, actor=by.name, subject=sent_invitation_id(write.key))
            await self._writes.write(by.tenant, [fact], carrier, [write])

        contended = Conflict(
            "the invitations of this workspace are being changed by others", hint="try again in a moment"
        )
        await write_optimistically(attempt, contended=contended)
