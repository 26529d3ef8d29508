"""Interactive sessions in the record: which jobs are sessions, whose, and of which template."""

import secrets
from contextlib import suppress
from datetime import timedelta
from typing import Literal

from clusterra_contracts.identity import ClusterRef, JobId, Moment, now
from clusterra_runtime.store.condition import Absent, Present, VersionIs
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.outbox_item import OutboxMessage
from clusterra_runtime.store.page import all_items
from clusterra_runtime.store.store import ConditionFailed, Delete, Put, Store, TransactionCancelled, Update

from clusterra_gateway.accounts.keyspace import (
    ACCOUNTS,
    RUNNING_SESSIONS,
    interactive_session_key,
    interactive_sessions_partition,
    running_session_key,
)
from clusterra_gateway.accounts.records import Record, expiry, marked_places

KEPT = timedelta(days=30)
PAGE = 500


class SessionRecord(Record):
    """An interactive session: a job that serves a page. Its states are those of the job."""

    job_id: JobId
    member: str
    """The id of its owner."""
    template_id: str
    name: str
    run_id: str
    """What its token is derived from, together with the key `kid`."""
    kid: str
    idle_cull_min: int | None = None
    """After how many minutes without use its job is cancelled; None or 0: never."""
    created_at: Moment
    ended: bool = False
    ready_at: Moment | None = None
    """When a gateway first saw that its server takes connections."""
    warned_at: Moment | None = None
    """When its owner was warned that it is idle."""


class SessionRecords:
    """The sessions of all clusters. Every method may raise StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def create(self, ref: ClusterRef, session: SessionRecord) -> None:
        """Stores a session. A session that exists stays as it is: its submit was repeated."""
        ends = expiry(session.created_at + KEPT)
        writes = [
            Put(ACCOUNTS, interactive_session_key(ref, session.job_id), session.attributes(), Absent(), ends),
            Put(ACCOUNTS, running_session_key(ref, session.job_id), {}, Absent(), ends),
        ]
        try:
            await self._store.transact(writes, token=f"session-{secrets.token_hex(8)}")
        except TransactionCancelled:
            known = await self.read(ref, session.job_id)
            if known is None or known.run_id != session.run_id:
                # Slurm has begun to count its jobs again.
                await self._replace(ref, session, ends)

    async def _replace(self, ref: ClusterRef, session: SessionRecord, ends: int) -> None:
        attributes = session.attributes()
        await self._store.write(
            Update(ACCOUNTS, interactive_session_key(ref, session.job_id), set=attributes, expires_at=ends)
        )
        await self._store.write(Update(ACCOUNTS, running_session_key(ref, session.job_id), set={}, expires_at=ends))

    async def read(self, ref: ClusterRef, job_id: JobId) -> SessionRecord | None:
        """A session; None when the job is none."""
        item = await self._store.get(ACCOUNTS, interactive_session_key(ref, job_id))
        return None if item is None else SessionRecord.of(item)

    async def of_member(self, ref: ClusterRef, member: str, limit: int) -> tuple[SessionRecord, ...]:
        """The sessions of a member that have not ended, at most `limit`. Those that cannot be read are logged."""
        found, partition = list[SessionRecord](), interactive_sessions_partition(ref)
        async for item in all_items(lambda after: self._store.query(ACCOUNTS, partition, limit=PAGE, cursor=after)):
            session = SessionRecord.readable(item)
            if session is not None and session.member == member and not session.ended:
                found.append(session)
            if len(found) == limit:
                break
        return tuple(found)

    async def running(self) -> tuple[tuple[ClusterRef, JobId], ...]:
        """The sessions whose jobs have not ended, as far as is known. Marks that name none are logged."""
        return await marked_places(self._store, ACCOUNTS, RUNNING_SESSIONS)

    async def end(self, ref: ClusterRef, job_id: JobId) -> None:
        """Note that a session has ended."""
        update = Update(ACCOUNTS, interactive_session_key(ref, job_id), set={"ended": True}, condition=Present())
        with suppress(ConditionFailed):  # it has expired
            await self._store.write(update)
        await self._store.delete(Delete(ACCOUNTS, running_session_key(ref, job_id)))

    async def mark_once(
        self,
        outbox: Outbox,
        ref: ClusterRef,
        job_id: JobId,
        what: Literal["ready_at", "warned_at"],
        message: OutboxMessage,
    ) -> bool:
        """Sets a time mark and queues its event in one conditional write. Returns False if the mark was already set."""
        item = await self._store.get(ACCOUNTS, interactive_session_key(ref, job_id))
        if item is None or getattr(SessionRecord.of(item), what) is not None:
            return False
        update = Update(ACCOUNTS, item.key, set={what: now().isoformat()}, condition=VersionIs(item.version))
        try:
            await outbox.write(update, [message])
        except ConditionFailed:
            return False
        return True

    async def withdraw_warning(self, ref: ClusterRef, job_id: JobId) -> None:
        """Note that a session is in use again."""
        update = Update(ACCOUNTS, interactive_session_key(ref, job_id), set={"warned_at": None}, condition=Present())
        with suppress(ConditionFailed):  # it has expired
            await self._store.write(update)

    async def forget(self, ref: ClusterRef, most: int) -> int:
        """Remove at most `most` sessions of a cluster that is deleted. Returns how many."""
        page = await self._store.query(ACCOUNTS, interactive_sessions_partition(ref), limit=most)
        for item in page.items:
            await self._store.delete(Delete(ACCOUNTS, running_session_key(ref, item.key.sk)))
            await self._store.delete(Delete(ACCOUNTS, item.key))
        return len(page.items)
