"""What was told before we started, and what happened that nobody told."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from clusterra_contracts import subjects
from clusterra_contracts.envelope import MESSAGE_ID
from clusterra_contracts.identity import ClusterRef, JobId, now
from clusterra_contracts.topology import EVENT
from clusterra_runtime.bus import Client
from clusterra_runtime.direct import replay

from clusterra_proxy.cluster import Cluster
from clusterra_proxy.facts import Ledger
from clusterra_proxy.node_history import NodeHistory
from clusterra_proxy.records import JobRecord

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
    unfinished: frozenset[JobId] = frozenset()
    """Jobs whose end was not told."""


async def read_told(client: Client, ref: ClusterRef) -> Told:
    """Read back what was told. Only ids are looked at: they hold it all. Raises BusUnavailable."""
    told = Told(Ledger(), NodeHistory())
    async for entity, version, kind, stored_at in _events(client, ref, "job.*"):
        told.jobs.add(entity, version, kind)
        told.last_at = stored_at
    async for entity, version, kind, _ in _events(client, ref, "node.*"):
        told.nodes.learn(entity, kind, version)
    told.unfinished = told.jobs.unfinished()
    return told


async def _events(client: Client, ref: ClusterRef, kinds: str) -> AsyncIterator[tuple[str, str, str, datetime]]:
    prefix = f"{ref.key}:"
    async for stored in replay(client, EVENT.name, subjects.events_of(ref, kinds)):
        parts = stored.headers.get(MESSAGE_ID, "").removeprefix(prefix).split(":")
        if len(parts) == 3:
            entity, version, kind = parts
            yield entity, version, kind, datetime.fromisoformat(stored.headers[_STORED_AT])


async def missed(cluster: Cluster, told: Told) -> tuple[JobRecord, ...]:
    """The records, from accounting, of jobs that may have done something while nobody watched.

    Those in slurmctld are not among them. For a cluster of which nothing was ever told there are none: its history
    is its own. Raises the errors of `clusterra_proxy.errors`.
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
    return tuple(_distinct(records))


def _distinct(records: Iterable[JobRecord]) -> Iterable[JobRecord]:
    runs = {(record.id, record.submit_time, record.restart_cnt): record for record in records}
    return sorted(runs.values(), key=lambda record: (record.submit_time or now(), record.job_id))
