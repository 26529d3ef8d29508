"""Says once that a session can be opened: the event `session.ready`, for its owner's open pages and subscribers."""

from clusterra_contracts.events import SessionFact
from clusterra_contracts.identity import ClusterRef, SlurmUser, now
from clusterra_runtime.store.outbox import Outbox

from clusterra_gateway.accounts.admin_events import cluster_event
from clusterra_gateway.accounts.session_records import SessionRecord, SessionRecords


async def mark_ready(
    records: SessionRecords, outbox: Outbox, ref: ClusterRef, owner: SlurmUser, record: SessionRecord
) -> None:
    """Mark a session as ready, and queue its event, unless that was done. Raises StoreError."""
    if record.ready_at is not None:
        return
    fact = SessionFact(job_id=record.job_id, name=record.name, user=owner.name, uid=owner.uid)
    # Slurm may give the job's id again: then the session has another run.
    message = cluster_event(ref, fact, version=record.run_id, at=now())
    await records.mark_once(outbox, ref, record.job_id, "ready_at", message)
