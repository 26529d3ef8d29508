"""Replays the event stream when a watcher starts: which events are published, and which were missed before."""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import MESSAGE_ID, InvalidMessage, decode
from clusterra_contracts.bus.topology import EVENT
from clusterra_contracts.events import JOB_ENDS, Event, JobFact
from clusterra_contracts.identity import ClusterRef, JobId, now
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.direct import Stored, replay

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.watch.job_facts import PublishedJobEvents
from clusterra_proxy.watch.node_facts import PublishedNodeEvents

log = structlog.get_logger(__name__)

MARGIN = timedelta(minutes=5)
"""Overlap of the queries to accounting: clocks differ, and slurmctld reports jobs to slurmdbd with a delay."""
RETENTION = timedelta(seconds=EVENT.max_age_seconds)
MAX_LOOKUPS = 500
"""Most unfinished jobs that are looked up in accounting one by one."""

_STORED_AT = "Nats-Time-Stamp"
_READS = asyncio.Semaphore(8)
"""A replica that takes over hundreds of clusters reads the events of all of them. All at once, none would be answered
in time, and all would begin again."""


@dataclass
class PublishedEvents:
    """A cluster's events in the event stream."""

    jobs: PublishedJobEvents
    nodes: PublishedNodeEvents
    last_job_event_at: datetime | None = None
    """When the last job event was stored; None when there is none."""
    owners: dict[JobId, tuple[int, str]] = field(default_factory=dict)
    """The uid and name of each job's owner."""
    unfinished: frozenset[JobId] = frozenset()
    """Jobs without a published end."""


async def read_published_events(client: Client, ref: ClusterRef) -> PublishedEvents:
    """Read a cluster's published events. Raises BusUnavailable. Others wait while some clusters' events are read."""
    async with _READS:
        return await _read_published_events(client, ref)


async def _read_published_events(client: Client, ref: ClusterRef) -> PublishedEvents:
    published = PublishedEvents(PublishedJobEvents(), PublishedNodeEvents())
    async for stored in replay(client, EVENT.name, subjects.events_of(ref, "job.*")):
        if (identity := _identity(ref, stored)) is not None:
            entity, version, kind = identity
            published.jobs.add(entity, version, kind)
            published.last_job_event_at = datetime.fromisoformat(stored.headers[_STORED_AT])
            if kind not in JOB_ENDS:
                _learn_owner(published, stored)
    async for stored in replay(client, EVENT.name, subjects.events_of(ref, "node.*")):
        if (identity := _identity(ref, stored)) is not None:
            entity, version, kind = identity
            published.nodes.add(entity, version, kind)
    published.unfinished = published.jobs.unfinished()
    return published


def _identity(ref: ClusterRef, stored: Stored) -> tuple[str, str, str] | None:
    """Split an event's id into entity, version and kind; None for an id of another form."""
    parts = stored.headers.get(MESSAGE_ID, "").removeprefix(f"{ref.key}:").split(":")
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else None


def _learn_owner(published: PublishedEvents, stored: Stored) -> None:
    try:
        fact = decode(Event, stored.body, dict(stored.headers)).data
    except InvalidMessage as error:
        log.warning("told_event_unreadable", sequence=stored.sequence, reason=str(error))
        return
    if isinstance(fact, JobFact):
        published.owners[fact.job_id] = fact.uid, fact.user


async def read_missed_jobs(cluster: Cluster, published: PublishedEvents) -> tuple[JobRecord, ...]:
    """Read from accounting the records of jobs that may have changed state while no replica watched.

    Leaves out jobs that slurmctld still has. Returns nothing for a cluster without any published event: its earlier
    history is not replayed. Raises the errors of `clusterra_proxy.slurmrestd.errors`.
    """
    if published.last_job_event_at is None:
        return ()
    token = cluster.mint.operator_token()
    since = max(published.last_job_event_at - MARGIN, now() - RETENTION)
    records = [
        *await cluster.accounting.active(token, after=since),
        *await cluster.accounting.submitted(token, after=since),
    ]
    present = {record.id for record in (*cluster.jobs, *records)}
    unfinished = sorted(published.unfinished - present)
    if len(unfinished) > MAX_LOOKUPS:
        log.warning("unfinished_jobs_not_all_looked_up", jobs=len(unfinished), looked_up=MAX_LOOKUPS)
    for job_id in unfinished[-MAX_LOOKUPS:]:
        records.extend(await cluster.accounting.job(token, job_id))
    in_slurmctld = {(record.id, record.submit_time) for record in cluster.jobs}
    runs = {(record.id, record.submit_time): record for record in records}
    return tuple(
        _with_owner(record, published)
        for key, record in sorted(runs.items(), key=_submit_order)
        if key not in in_slurmctld
    )


def _submit_order(run: tuple[object, JobRecord]) -> tuple[datetime, int]:
    return run[1].submit_time or now(), run[1].job_id


def _with_owner(record: JobRecord, published: PublishedEvents) -> JobRecord:
    """Add the owner in the published events to an accounting record, which holds no uid."""
    known = published.owners.get(record.id) or published.owners.get(str(record.array))
    if record.user_id is not None or known is None:
        return record
    uid, name = known
    return record.model_copy(update={"user_id": uid, "user_name": name})
