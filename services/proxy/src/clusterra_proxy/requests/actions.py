"""Notes who acted on a job: each action that Slurm accepted becomes an event in the job's history."""

import asyncio
import uuid

import structlog
from clusterra_contracts.events import ActionKind, JobActionFact
from clusterra_contracts.identity import now
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_runtime.nats.bus import BusUnavailable, Client, MessageRejected
from clusterra_runtime.nats.events import EventPublisher

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.watch.event_queue import EventQueue, PendingEvent
from clusterra_proxy.watch.job_facts import UNKNOWN_UID

log = structlog.get_logger(__name__)

PUBLISH_SECONDS = 2.0
"""A request waits so long for its event to be stored. After that it is published in the background."""


class Actions:
    """Publishes the actions of people on a cluster's jobs.

    An event is stored before the request is answered. While the bus refuses events, a bounded number of them waits in
    this process, and is lost with it.
    """

    def __init__(self, client: Client, cluster: Cluster) -> None:
        self._publisher = EventPublisher(client, "proxy")
        self._cluster = cluster
        self._later = EventQueue(self._publisher, cluster.ref)

    async def run(self) -> None:
        """Publish the events that could not be stored at once, forever."""
        await self._later.run()

    async def note(self, kind: ActionKind, viewer: Viewer, jobs: str, record: JobRecord, detail: str = "") -> None:
        """Store that the viewer acted on `jobs`, a selection as `JobSelection` describes it, of which one is `record`.

        Does not fail: the action has been carried out.
        """
        job_id, tasks = (jobs.partition("_")[0], jobs.partition("_")[2].strip("[]")) if "[" in jobs else (jobs, "")
        fact = JobActionFact(
            kind=kind,
            job_id=job_id,
            tasks=tasks,
            name=record.name,
            user=self._cluster.owner_name(record),
            uid=UNKNOWN_UID if record.user_id is None else record.user_id,
            actor=viewer.user.name,
            detail=detail,
        )
        version, time = uuid.uuid4().hex, now()
        log.info("job_action", kind=kind, jobs=jobs, actor=fact.actor, owner=fact.user)
        try:
            async with asyncio.timeout(PUBLISH_SECONDS):
                await self._publisher.publish(self._cluster.ref, fact, version=version, time=time)
        except (BusUnavailable, TimeoutError) as error:
            log.warning("action_not_told_yet", kind=kind, jobs=jobs, reason=str(error))
            if self._later.accepts:
                self._later.put(PendingEvent(fact, version, time))
        except MessageRejected as error:
            log.error("fact_refused", kind=kind, reason=str(error))  # noqa: TRY400 - the message is complete
