"""Enrols a person who signed in as a member of a tenant, with a Slurm identity that is theirs for good."""

import hmac
import secrets
from dataclasses import dataclass, replace
from itertools import islice
from typing import Self

import structlog
from clusterra_contracts.events import AdminFact
from clusterra_contracts.identity import TenantRef, now
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent, Present, VersionIs
from clusterra_runtime.store.store import ConditionFailed, Delete, Put, TransactionCancelled, Update, Write

from clusterra_gateway.accounts.addresses import readdressed, reservation_of
from clusterra_gateway.accounts.admin_events import AuditedWrites
from clusterra_gateway.accounts.directory import MAX_FURTHER, Directory
from clusterra_gateway.accounts.keyspace import (
    ACCOUNTS,
    further_membership_key,
    member_key,
    sent_invitation_key,
    user_name_key,
)
from clusterra_gateway.accounts.records import Invitation, Member, further_issuer, member_id
from clusterra_gateway.accounts.roles import Role
from clusterra_gateway.accounts.slurm_identities import names_for, next_uid
from clusterra_gateway.http.requests.errors import Conflict, Forbidden
from clusterra_gateway.identity.access.credentials import secret_hash
from clusterra_gateway.identity.access.unix_users import Deactivations
from clusterra_gateway.identity.issuers.oidc import Identity

log = structlog.get_logger()

MAX_NAMES = 200
"""User names to try for one person."""
INVITATION_PREFIX = "clusterra-invitation"
INVITATION_PATTERN = rf"^{INVITATION_PREFIX}_[a-z0-9-]{{1,39}}_[0-9a-f]{{16}}_[A-Za-z0-9_-]{{20,64}}$"
"""The token of an admin's invitation, which the admin hands to the invited person."""


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
    return f"{INVITATION_PREFIX}_{invitation.tenant}_{invitation.id}_{secret}"


@dataclass(frozen=True, slots=True)
class _Joining:
    """What a new member joins, and the writes that go with it: the first uses up the invitation they accept."""

    tenant: str
    role: Role
    writes: tuple[Delete | Put, ...] = ()


class Enrolment:
    """Decides which tenant a person belongs to: that of their address's domain, otherwise that of its invitation.

    An invitation is an operator's, which counts at the first sign-in with its address, or an admin's, which the person
    accepts. So no admin can take a person into their tenant who does not want it. An operator's
    invitation by another tenant than the domain's counts for nothing: nobody takes a domain's people from it. An
    admin's, which is accepted, adds a tenant to the one where the person belongs.

    All require an address that the issuer has verified, because anyone can claim any other, and an issuer that may
    assert it: one that the address's domain is bound to, otherwise the platform's default issuer. Entra ID says
    nothing of the verification: it counts in the domains that are bound to it.

    Nobody joins whom the tenant's directory has deactivated.

    An atomic counter gives each uid once. The transaction that writes the member also reserves their user name.
    """

    def __init__(
        self, directory: Directory, deactivations: Deactivations, registry: Registry, *, default_issuer: str
    ) -> None:
        self._directory = directory
        self._deactivations = deactivations
        self._writes = AuditedWrites(directory, registry)
        self._default_issuer = default_issuer

    async def presented(self, token: str) -> tuple[InvitationId, str]:
        """The invitation with this token, which has INVITATION_PATTERN, and the domain of its address.

        Raises Forbidden for one that is not open.
        """
        _, tenant, invitation_id, secret = token.split("_", 3)
        record = await self._directory.sent_invitation(tenant, invitation_id)
        if record is None or not hmac.compare_digest(record.secret_hash, secret_hash(secret)):
            raise _no_longer_open()
        return InvitationId(tenant, invitation_id), record.email.rpartition("@")[2]

    async def issuers_of(self, domain: str) -> tuple[str, ...]:
        """The issuers that may assert addresses of a domain; empty for the platform's default one."""
        known = await self._directory.domain(domain)
        return () if known is None else known.issuers

    async def member(self, identity: Identity, accepted: InvitationId | None = None) -> Member:
        """The person's member record; their first sign-in enrols them. Raises Forbidden for a stranger, Conflict."""
        known = await self._directory.member(member_id(identity.issuer, identity.subject))
        trusted = await self._may_assert(identity)
        joins = known is None or (accepted is not None and known.tenant != accepted.tenant)
        if joins and not identity.email:
            raise Forbidden(
                f"{identity.issuer} gives no e-mail address of yours, and a user name counts for none",
                hint="add an address to your account there, or ask the operators to have the claim `email` included",
            )
        if joins and identity.email_verified and not trusted:
            raise Forbidden(
                f"{identity.issuer} may not vouch for addresses like {identity.email}",
                hint="sign in with the service that this address's organization uses",
            )
        identity = replace(identity, email_verified=trusted)
        invitation = await self._directory.invitation(identity.email) if identity.email_verified else None
        if accepted is not None and (known is None or known.tenant != accepted.tenant):
            return await self._accept(identity, accepted, known, invitation)
        if known is None:
            return await self._enrol(identity, await self._joining(identity, invitation))
        updated = await self._update(known, identity, invitation)
        if not await self._shut_out(updated):
            return updated
        for each in await self._directory.memberships(updated):
            if not await self._shut_out(each):
                return each
        if updated.disabled:
            return updated
        raise _deactivated()

    async def _shut_out(self, member: Member) -> bool:
        return member.disabled or await self._deactivations.deactivated(member.tenant, member.email)

    async def _may_assert(self, identity: Identity) -> bool:
        """Whether the issuer asserts this address, and may assert addresses in its domain.

        An issuer that says nothing of the verification is trusted in the domains that are bound to it by name.
        """
        if identity.email_verified is False or "@" not in identity.email:
            return False
        bound = await self.issuers_of(identity.email.rpartition("@")[2])
        if identity.email_verified is None:
            return identity.issuer in bound
        return identity.issuer in (bound or (self._default_issuer,))

    async def _accept(
        self, identity: Identity, accepted: InvitationId, known: Member | None, invitation: Invitation | None
    ) -> Member:
        """Enrols a person in the tenant that invited them. Whoever belongs elsewhere belongs there as well."""
        sent = await self._directory.sent_invitation(accepted.tenant, accepted.id)
        if sent is None:
            raise _no_longer_open()
        if not identity.email_verified or identity.email.lower() != sent.email:
            raise Forbidden(
                "this invitation is for another address", hint="sign in with the address that the invitation names"
            )
        used_up = Delete(ACCOUNTS, sent_invitation_key(accepted.tenant, accepted.id), Present())
        domain = await self._directory.domain(identity.email.rpartition("@")[2])
        if known is None and domain is not None and domain.tenant != accepted.tenant:
            known = await self._enrol(identity, await self._joining(identity, invitation))
        if known is None:
            return await self._enrol(identity, _Joining(accepted.tenant, sent.role, (used_up,)))
        memberships = await self._directory.memberships(known)
        if (there := next((each for each in memberships if each.tenant == accepted.tenant), None)) is not None:
            return there
        if len(memberships) > MAX_FURTHER:
            raise Conflict(
                f"you belong to {len(memberships)} workspaces, the most allowed", hint="contact the operators"
            )
        mark = Put(ACCOUNTS, further_membership_key(known.id, accepted.tenant), {}, Absent())
        further = replace(identity, issuer=further_issuer(identity.issuer, accepted.tenant))
        return await self._enrol(further, _Joining(accepted.tenant, sent.role, (used_up, mark)))

    async def _joining(self, identity: Identity, invitation: Invitation | None) -> _Joining:
        if not identity.email_verified:
            raise Forbidden(
                "your e-mail address is not verified",
                hint="verify it with the service where you sign in, then sign in here again",
            )
        domain = await self._directory.domain(identity.email.rpartition("@")[2])
        if domain is None and invitation is None:
            raise Forbidden(
                f"{identity.email} belongs to no workspace", hint="ask a workspace's admin to invite this address"
            )
        if invitation is not None and (domain is None or invitation.tenant == domain.tenant):
            return _Joining(invitation.tenant, invitation.role)
        assert domain is not None  # noqa: S101 - one of the two is there
        if invitation is not None:
            log.warning("invitation_ignored", invited_by=invitation.tenant, tenant=domain.tenant)
        return _Joining(domain.tenant, "member")

    async def _update(self, known: Member, identity: Identity, invitation: Invitation | None) -> Member:
        key = member_key(known.id)
        item = await self._directory.store.get(ACCOUNTS, key)
        if item is None:
            return known
        # As they are now: an admin may have disabled them since this sign-in began, and this write must not undo it.
        known = Member.of(item)
        changes: dict[str, str] = {"display_name": identity.name}
        if identity.email_verified:
            changes["email"] = identity.email
        updated = known.model_copy(update=changes)
        if invitation is not None and invitation.tenant == known.tenant and known.role_given_at is None:
            updated = updated.with_role(invitation.role)
        try:
            write = Update(ACCOUNTS, key, set=updated.attributes(), condition=VersionIs(item.version))
            others = await readdressed(self._directory, updated)
            if others or updated.email != known.email:
                token = f"address-{secrets.token_hex(16)}"
                await self._directory.store.transact([write, *others], token=token)
            elif updated != known:
                await self._directory.store.write(write)
        except (ConditionFailed, TransactionCancelled):
            log.info("member_not_renewed", member=known.id)  # the next sign-in does it
        return updated

    async def _enrol(self, identity: Identity, joining: _Joining) -> Member:
        tenant = await self._directory.tenant(TenantRef(tenant=joining.tenant))
        if tenant is not None and tenant.deletion is not None:
            raise Forbidden("this workspace is being deleted", hint="contact the operators")
        admission = await self._deactivations.admission(joining.tenant, identity.email)
        if admission is None:
            raise _deactivated()
        uid = await next_uid(self._directory.store, joining.tenant)
        for name in islice(names_for(identity.email), MAX_NAMES):
            member = Member(
                issuer=identity.issuer,
                subject=identity.subject,
                tenant=joining.tenant,
                user=name,
                uid=uid,
                email=identity.email,
                display_name=identity.name,
                joined_at=now(),
            ).with_role(joining.role, given_at=now() if joining.writes else None)
            try:
                await self._write(member, joining, admission)
            except TransactionCancelled as cancelled:
                if joining.writes and cancelled.reasons[3] is not None:
                    raise _no_longer_open() from None
                if (other := await self._directory.member(member.id)) is not None:
                    return other  # a parallel sign-in enrolled the same person
                if cancelled.reasons[2] is not None:
                    raise Conflict("your directory is just changing your account", hint="sign in again") from None
                if cancelled.reasons[0] is None:
                    continue  # the member is new, so it is the name that is taken
                raise
            log.info("member_joined", tenant=member.tenant, user=name, uid=uid)
            return member
        raise Conflict("every user name for this address is taken", hint="contact the operators")

    async def _write(self, member: Member, joining: _Joining, admission: Write) -> None:
        created = AdminFact(kind="user.created", actor=member.user, subject=member.user)
        put_member = Put(ACCOUNTS, member_key(member.id), member.attributes(), Absent())
        reservation = reservation_of(member).attributes()
        put_name = Put(ACCOUNTS, user_name_key(member.tenant, member.user), reservation, Absent())
        await self._writes.write(member.tenant, [created], put_member, [put_name, admission, *joining.writes])


def _deactivated() -> Forbidden:
    return Forbidden(
        "the directory of your organization has deactivated this account", hint="ask an admin of your workspace"
    )


def _no_longer_open() -> Forbidden:
    """The answer to a wrong, expired, revoked or accepted invitation."""
    return Forbidden("this invitation is wrong, expired, revoked or accepted", hint="ask for a new one")
