"""Makes, lists and revokes links to jobs in the record. Every change is told in the events of the job's cluster."""

import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Self

import structlog
from clusterra_contracts.events import AdminFact, AdminKind
from clusterra_contracts.identity import ClusterRef, JobId, now
from clusterra_contracts.rpc.slurm import Job
from clusterra_runtime.store.condition import Present, VersionIs
from clusterra_runtime.store.optimistic_write import write_optimistically
from clusterra_runtime.store.outbox_item import OutboxMessage
from clusterra_runtime.store.store import Update

from clusterra_gateway.accounts.admin_events import cluster_event
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, member_key
from clusterra_gateway.accounts.records import Member
from clusterra_gateway.accounts.roles import manages
from clusterra_gateway.accounts.shared_link_records import SharedLink, SharedLinkRecords
from clusterra_gateway.http.requests.errors import Conflict, NotFound
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.credentials import secret_hash
from clusterra_gateway.shared_links.link_tokens import join_link

log = structlog.get_logger()

MAX_OF_JOB = 20
"""How many valid links a job may have."""
MAX_OF_MEMBER = 200
"""How many valid links a member may have, to all their jobs."""
ATTEMPTS = 10
"""Attempts to add a link while others change the same member, their tokens or their links."""


@dataclass(frozen=True)
class FreshLink:
    """A link before it is stored. `token` is shown once."""

    id: str
    record: SharedLink
    token: str = field(repr=False)

    @classmethod
    def made(cls, caller: Caller, ref: ClusterRef, job: Job, name: str, shows: tuple[str, ...], seconds: int) -> Self:
        """A link of this caller to their job. One that a token makes ends no later than the token."""
        link_id, secret, made_at = secrets.token_hex(8), secrets.token_urlsafe(32), now()
        by_token = caller.credential == "token"
        record = SharedLink(
            tenant=ref.tenant,
            cluster=ref.cluster,
            job_id=job.job_id,
            submitted_at=job.submitted_at,
            member=caller.member.id,
            user=caller.member.user,
            name=name,
            shows=shows,
            secret_hash=secret_hash(secret),
            token_id=caller.credential_id if by_token else None,
            created_at=made_at,
            valid_until=_end(made_at + timedelta(seconds=seconds), caller.expires_at if by_token else None),
        )
        return cls(link_id, record, join_link(link_id, secret))


class Links:
    """The links of all jobs, for their owners and for admins."""

    def __init__(self, directory: Directory) -> None:
        self._store = directory.store
        self._outbox = directory.outbox
        self._records = SharedLinkRecords(directory.store)

    async def seen(self, caller: Caller, ref: ClusterRef, job_id: JobId) -> tuple[tuple[str, SharedLink], ...]:
        """The ids and records of a job's links that are the caller's, or all for an admin."""
        found = await self._records.of_job(ref, job_id)
        return tuple((link_id, link) for link_id, link in found if _may_change(caller.member, link))

    async def own(
        self, member: Member, *, limit: int, cursor: str | None
    ) -> tuple[tuple[tuple[str, SharedLink], ...], str | None]:
        """The ids and records of the member's links to all their jobs, and a cursor. Raises InvalidCursor."""
        return await self._records.of_member(member.id, limit=limit, cursor=cursor)

    async def add(self, actor: Member, link: FreshLink) -> None:
        """Adds a link. Raises Conflict for more than a job or a member may have; NotFound.

        Two that are added at the same moment cannot both be the last one: the write holds only if nobody has changed
        the member since their links were counted, and each link that is added changes them.
        """
        record = link.record

        async def attempt() -> None:
            item = await self._store.get(ACCOUNTS, member_key(actor.id))
            if item is None or Member.of(item).disabled:
                raise NotFound("this member no longer exists", hint="sign in again")
            if len(await self._records.of_job(record.ref, record.job_id)) >= MAX_OF_JOB:
                raise Conflict(f"the job has {MAX_OF_JOB} links, the most allowed", hint="revoke one of them")
            if await self._records.count(actor.id) >= MAX_OF_MEMBER:
                raise Conflict(
                    f"you have {MAX_OF_MEMBER} links, the most allowed", hint="revoke one that is not used, of any job"
                )
            carrier = Update(ACCOUNTS, item.key, condition=VersionIs(item.version))
            event = _event(actor, record, link.id, "link.created")
            await self._outbox.transact(carrier, [event], record.puts(link.id), token=_transaction())

        contended = Conflict("your links are being changed by others", hint="try again in a moment")
        await write_optimistically(attempt, contended=contended, attempts=ATTEMPTS)
        log.info("shared_link_made", link_id=link.id, job_id=record.job_id)

    async def revoke(self, actor: Member, ref: ClusterRef, job_id: JobId, link_id: str) -> None:
        """Removes a link of the actor, or anybody's for an admin. Raises NotFound, Conflict.

        The actor's item carries the event: those of the link are gone before it is sent.
        """

        async def attempt() -> None:
            record = await self._records.read(ref, job_id, link_id)
            if record is None or not _may_change(actor, record):
                raise NotFound("there is no such link", hint="the list of the job's links has their ids")
            carrier = Update(ACCOUNTS, member_key(actor.id), condition=Present())
            event = _event(actor, record, link_id, "link.revoked")
            await self._outbox.transact(carrier, [event], record.deletes(link_id), token=_transaction())

        contended = Conflict("this link is being changed by others", hint="try again in a moment")
        await write_optimistically(attempt, contended=contended, attempts=ATTEMPTS)
        log.info("shared_link_revoked", link_id=link_id, job_id=job_id)


def _end(wanted: datetime, of_token: datetime | None) -> datetime:
    return wanted if of_token is None else min(wanted, of_token)


def _may_change(member: Member, link: SharedLink) -> bool:
    return link.member == member.id or manages(member.role)


def _event(actor: Member, link: SharedLink, link_id: str, kind: AdminKind) -> OutboxMessage:
    fact = AdminFact(kind=kind, actor=actor.user, subject=link_id, detail=link.job_id)
    return cluster_event(link.ref, fact, version=secrets.token_hex(8))


def _transaction() -> str:
    return f"shared-link-{secrets.token_hex(16)}"
