"""How a person who signed in becomes a member of a tenant, with a Slurm identity that is his for good."""

import time
from itertools import islice

import structlog
from clusterra_contracts.events import AdminFact
from clusterra_contracts.identity import now
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.outbox import with_messages
from clusterra_runtime.store.store import ConditionFailed, Put, TransactionCancelled, Update

from clusterra_gateway.accounts.admin_events import tenant_events
from clusterra_gateway.accounts.directory import ACCOUNTS, Directory, member_key, name_key, uid_key
from clusterra_gateway.accounts.records import Invitation, Member, NameReservation, member_id
from clusterra_gateway.http.errors import Conflict, Forbidden
from clusterra_gateway.identity.oidc import Identity
from clusterra_gateway.identity.slurm_names import names_for

log = structlog.get_logger()

FIRST_UID = 20001
"""Uids below are for services: a cluster's operator has one of those."""
MAX_NAMES = 200


class Joining:
    """Membership is decided by the table: an invitation of the address, else the tenant of its domain.

    Both need an address that the issuer has verified, for anybody can claim any other. A uid is given once, by an
    atomic counter; a name is reserved in the same transaction that writes the member.
    """

    def __init__(self, directory: Directory, registry: Registry) -> None:
        self._directory = directory
        self._registry = registry

    async def member(self, identity: Identity) -> Member:
        """The member that this person is, made at the first sign-in. Raises Forbidden for a stranger."""
        invitation = await self._directory.invitation(identity.email) if identity.email_verified else None
        known = await self._directory.member(member_id(identity.issuer, identity.subject))
        if known is not None:
            return await self._renewed(known, identity, invitation)
        return await self._join(identity, invitation or await self._by_domain(identity))

    async def _by_domain(self, identity: Identity) -> Invitation:
        if not identity.email_verified:
            raise Forbidden(
                "your e-mail address is not verified", hint="verify it where you sign in, then sign in here again"
            )
        domain = await self._directory.domain(identity.email.rpartition("@")[2])
        if domain is None:
            raise Forbidden(
                f"{identity.email} belongs to no workspace", hint="ask a workspace's admin to invite this address"
            )
        return Invitation(tenant=domain.tenant)

    async def _renewed(self, known: Member, identity: Identity, invitation: Invitation | None) -> Member:
        changes: dict[str, str | bool] = {"display_name": identity.name}
        if identity.email_verified:
            changes["email"] = identity.email
        if invitation is not None and invitation.tenant == known.tenant:
            changes["admin"] = invitation.admin
        renewed = known.model_copy(update=changes)
        try:
            await self._directory.replace(member_key(known.id), renewed)
        except ConditionFailed:
            log.info("member_renewed_twice", member=known.id)  # by another sign-in just now, from the same facts
        return renewed

    async def _join(self, identity: Identity, invitation: Invitation) -> Member:
        tenant = invitation.tenant
        counted = await self._directory.store.write(Update(ACCOUNTS, uid_key(tenant), add={"given": 1}))
        uid = FIRST_UID - 1 + int(str(counted.attributes["given"]))
        for name in islice(names_for(identity.email), MAX_NAMES):
            member = Member(
                issuer=identity.issuer,
                subject=identity.subject,
                tenant=tenant,
                user=name,
                uid=uid,
                email=identity.email,
                display_name=identity.name,
                admin=invitation.admin,
                joined_at=now(),
            )
            reservation = NameReservation(uid=uid, owner=member.id)
            created = AdminFact(kind="user.created", actor=name, subject=name)
            told = tenant_events(self._registry, tenant, created, version=str(uid))
            put = Put(ACCOUNTS, member_key(member.id), member.attributes(), Absent())
            try:
                await self._directory.store.transact(
                    [
                        with_messages(put, told, now=time.time()),
                        Put(ACCOUNTS, name_key(tenant, name), reservation.attributes(), Absent()),
                    ],
                    token=f"join-{member.id}-{name}-{uid}",
                )
            except TransactionCancelled as cancelled:
                if cancelled.reasons[0] is None:
                    continue
                if (other := await self._directory.member(member.id)) is not None:
                    return other
                raise
            await self._directory.outbox.send(ACCOUNTS, member_key(member.id))
            log.info("member_joined", tenant=tenant, user=name, uid=uid)
            return member
        raise Conflict("there is no free user name for this address", hint="tell the operators")
