"""Enrols a person who signed in as a member of a tenant, with a Slurm identity that is theirs for good."""

import time
from itertools import islice

import structlog
from clusterra_contracts.events import AdminFact
from clusterra_contracts.identity import now
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.outbox_item import with_messages
from clusterra_runtime.store.store import ConditionFailed, Put, TransactionCancelled

from clusterra_gateway.accounts.admin_events import tenant_events
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, member_key, user_name_key
from clusterra_gateway.accounts.records import Invitation, Member, UserNameReservation, member_id
from clusterra_gateway.accounts.roles import Role
from clusterra_gateway.accounts.uids import next_uid
from clusterra_gateway.http.errors import Conflict, Forbidden
from clusterra_gateway.identity.oidc import Identity
from clusterra_gateway.identity.slurm_names import names_for

log = structlog.get_logger()

MAX_NAMES = 200
"""User names to try for one person."""


class Enrolment:
    """Decides which tenant a person belongs to: that of their address's domain, otherwise that of its invitation.

    An invitation by another tenant than the domain's counts for nothing: nobody takes a domain's people from it.

    Both require an address that the issuer has verified, because anyone can claim any other. An atomic counter gives
    each uid once. The transaction that writes the member also reserves their user name.
    """

    def __init__(self, directory: Directory, registry: Registry) -> None:
        self._directory = directory
        self._registry = registry

    async def member(self, identity: Identity) -> Member:
        """The person's member record; their first sign-in enrols them. Raises Forbidden for a stranger, Conflict."""
        invitation = await self._directory.invitation(identity.email) if identity.email_verified else None
        known = await self._directory.member(member_id(identity.issuer, identity.subject))
        if known is not None:
            return await self._update(known, identity, invitation)
        return await self._enrol(identity, await self._joining(identity, invitation))

    async def _joining(self, identity: Identity, invitation: Invitation | None) -> Invitation:
        if not identity.email_verified:
            raise Forbidden(
                "your e-mail address is not verified",
                hint="verify it with the service where you sign in, then sign in here again",
            )
        domain = await self._directory.domain(identity.email.rpartition("@")[2])
        if domain is None and invitation is not None:
            return invitation
        if domain is None:
            raise Forbidden(
                f"{identity.email} belongs to no workspace", hint="ask a workspace's admin to invite this address"
            )
        if invitation is not None and invitation.tenant == domain.tenant:
            return invitation
        if invitation is not None:
            log.warning("invitation_ignored", invited_by=invitation.tenant, tenant=domain.tenant)
        return Invitation(tenant=domain.tenant)

    async def _update(self, known: Member, identity: Identity, invitation: Invitation | None) -> Member:
        changes: dict[str, str] = {"display_name": identity.name}
        if identity.email_verified:
            changes["email"] = identity.email
        updated = known.model_copy(update=changes)
        if invitation is not None and invitation.tenant == known.tenant and known.role_given_at is None:
            updated = updated.with_role(_invited_as(invitation))
        try:
            await self._directory.replace(member_key(known.id), updated)
        except ConditionFailed:
            log.info("member_renewed_twice", member=known.id)  # a parallel sign-in wrote the same
        return updated

    async def _enrol(self, identity: Identity, invitation: Invitation) -> Member:
        uid = await next_uid(self._directory.store, invitation.tenant)
        for name in islice(names_for(identity.email), MAX_NAMES):
            member = Member(
                issuer=identity.issuer,
                subject=identity.subject,
                tenant=invitation.tenant,
                user=name,
                uid=uid,
                email=identity.email,
                display_name=identity.name,
                admin=invitation.admin,
                role=_invited_as(invitation),
                joined_at=now(),
            )
            try:
                await self._write(member)
            except TransactionCancelled as cancelled:
                if cancelled.reasons[0] is None:
                    continue  # the member is new, so it is the name that is taken
                if (other := await self._directory.member(member.id)) is not None:
                    return other  # a parallel sign-in enrolled the same person
                raise
            await self._directory.outbox.send(ACCOUNTS, member_key(member.id))
            log.info("member_joined", tenant=member.tenant, user=name, uid=uid)
            return member
        raise Conflict("every user name for this address is taken", hint="contact the operators")

    async def _write(self, member: Member) -> None:
        created = AdminFact(kind="user.created", actor=member.user, subject=member.user)
        events = tenant_events(self._registry, member.tenant, created, version=str(member.uid))
        put_member = Put(ACCOUNTS, member_key(member.id), member.attributes(), Absent())
        reservation = UserNameReservation(uid=member.uid, owner=member.id)
        name_key = user_name_key(member.tenant, member.user)
        await self._directory.store.transact(
            [
                with_messages(put_member, events.messages, now=time.time()),
                Put(ACCOUNTS, name_key, reservation.attributes(), Absent()),
                *events.kept,
            ],
            token=f"join-{member.id}-{member.user}-{member.uid}",
        )


def _invited_as(invitation: Invitation) -> Role:
    return "admin" if invitation.admin else "member"
