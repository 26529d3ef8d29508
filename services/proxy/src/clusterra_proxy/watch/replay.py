"""What was told before we started, and what happened that nobody told."""

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
from clusterra_proxy.watch.job_facts import Ledger
from clusterra_proxy.watch.node_facts import NodeHistory

log = structlog.get_logger(__name__)

MARGIN = timedelta(minutes=5)
"""Clocks differ, and accounting has a job only when it has been told of it."""
RETENTION = timedelta(seconds=EVENT.max_age_seconds)
MOST_LOOKUPS = 500

_STORED_AT = "Nats-Time-Stamp"


@dataclass
class Told:
    """What the event stream knows of a cluster."""

    jobs: Ledger
    nodes: NodeHistory
    last_at: datetime | None = None
    """When the last of its job events was stored; None when there is none."""
    owners: dict[JobId, tuple[int, str]] = field(default_factory=dict)
    """The uid and name of the owner of each job."""
    unfinished: frozenset[JobId] = frozenset()
    """Jobs whose end was not told."""


async def read_told(client: Client, ref: ClusterRef) -> Told:
    """Read back what was told. Raises BusUnavailable."""
    told = Told(Ledger(), NodeHistory())
    async for stored in replay(client, EVENT.name, subjects.events_of(ref, "job.*")):
        if (identity := _identity(ref, stored)) is not None:
            entity, version, kind = identity
            told.jobs.add(entity, version, kind)
            told.last_at = datetime.fromisoformat(stored.headers[_STORED_AT])
            if kind not in JOB_ENDS:
                _learn_owner(told, stored)
    async for stored in replay(client, EVENT.name, subjects.events_of(ref, "node.*")):
        if (identity := _identity(ref, stored)) is not None:
            entity, version, kind = identity
            told.nodes.learn(entity, kind, version)
    told.unfinished = told.jobs.unfinished()
    return told


def _identity(ref: ClusterRef, stored: Stored) -> tuple[str, str, str] | None:
    """The entity, version and kind that an event's id is made of; None for an id that is none of ours."""
    parts = stored.headers.get(MESSAGE_ID, "").removeprefix(f"{ref.key}:").split(":")
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else None


def _learn_owner(told: Told, stored: Stored) -> None:
    try:
        fact = decode(Event, stored.body, dict(stored.headers)).data
    except InvalidMessage as error:
        log.warning("told_event_unreadable", sequence=stored.sequence, reason=str(error))
        return
    if isinstance(fact, JobFact):
        told.owners[fact.job_id] = fact.uid, fact.user


async def missed(cluster: Cluster, told: Told) -> tuple[JobRecord, ...]:
    """The records, from accounting, of jobs that may have done something while nobody watched.

    Those in slurmctld are not among them. For a cluster of which nothing was ever told there are none: its history
    is its own. Raises the errors of `clusterra_proxy.slurmrestd.errors`.
    """
    if told.last_at is None:
        return ()
    token = cluster.mint.operator()
    since = max(told.last_at - MARGIN, now() - RETENTION)
    records = [
        *await cluster.accounting.active(token, after=since),
        *await cluster.accounting.submitted(token, after=since),
    ]
    present = {record.id for record in (*cluster.jobs, *records)}
    unfinished = sorted(told.unfinished - present)
    if len(unfinished) > MOST_LOOKUPS:
        log.warning("unfinished_jobs_not_all_looked_up", jobs=len(unfinished), looked_up=MOST_LOOKUPS)
    for job_id in unfinished[-MOST_LOOKUPS:]:
        records.extend(await cluster.accounting.job(token, job_id))
    in_slurmctld = {(record.id, record.submit_time) for record in cluster.jobs}
    runs = {(record.id, record.submit_time): record for record in records}
    return tuple(_owned(record, told) for key, record in sorted(runs.items(), key=_age) if key not in in_slurmctld)


def _age(run: tuple[object, JobRecord]) -> tuple[datetime, int]:
    return run[1].submit_time or now(), run[1].job_id


def _owned(record: JobRecord, told: Told) -> JobRecord:
    """A record of accounting, which tells no uid, with the owner that was told before."""
    known = told.owners.get(record.id) or told.owners.get(str(record.array))
    if record.user_id is not None or known is None:
        return record
    uid, name = known
    return record.model_copy(update={"user_id": uid, "user_name": name})
