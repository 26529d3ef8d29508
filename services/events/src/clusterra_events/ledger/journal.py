"""The journal: takes the facts of events into the table, each once, and reads them again."""

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

import structlog
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.events import JOB_ENDS, Event, JobFact
from clusterra_contracts.identity import ClusterRef, JobId, Moment, Wire, from_epoch, has_happened
from clusterra_runtime.bounded_cache import BoundedCache
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Item, Key, Value
from clusterra_runtime.store.page import Prefix, all_items
from clusterra_runtime.store.store import ConditionFailed, Put, Store, Update
from prometheus_client import Counter
from pydantic import ValidationError

from clusterra_events.ledger import keyspace
from clusterra_events.ledger.facts import FACT, Life, Run, Superseded, WorkerFacts, facts_of, times_of
from clusterra_events.ledger.keyspace import LEDGER

LEFT_OUT = Counter("clusterra_ledger_left_out_total", "What the ledger leaves out of the costs", ("what",))
"""`record`: a fact or a run cannot be read, or has impossible times. `worker`: its account cannot be computed.
`rest`: there is more than is read."""

log = structlog.get_logger(__name__)

MAX_FACTS = 50_000
"""The most facts about the workers of one name that are read. A worker that runs a job a minute has them in a month."""
MAX_RUNS = 50_000
"""The most runs of one job, or of all tasks of an array, that are read: a Slurm that allows more jobs is rare."""
MAX_KNOWN_WORKERS = 5_000
"""For how many workers the facts are remembered, so that only changed ones are read again."""
_PAGE = 1_000
_START, _REQUEUE = "fact", "superseded"
_END = {kind: kind.replace("job.", "end_") for kind in sorted(JOB_ENDS)}
_PARTS = (_START, *_END.values(), _REQUEUE)
"""The attributes of a run's fact: what was told while it ran, of its end by each kind of event, and of its requeue."""


class JobRun(Wire):
    """A run of a job: which workers it had."""

    job_id: JobId
    submitted_at: Moment
    restarts: int
    uid: int
    nodes: tuple[str, ...] = ()
    started_at: Moment | None = None
    ended_at: Moment | None = None
    superseded_at: Moment | None = None
    """When its job was queued again, once its workers' facts say so."""


@dataclass(frozen=True, slots=True)
class OpenWorker:
    """A worker name whose lines are not written yet. A new fact makes a new version."""

    name: str
    version: int


class Journal:
    """The facts of all clusters. A replay changes nothing. All methods raise StoreUnavailable."""

    def __init__(self, store: Store, *, retention_seconds: float, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._retention_seconds = retention_seconds
        self._clock = clock
        self._known = BoundedCache[tuple[ClusterRef, str], tuple[int, tuple[WorkerFacts, ...]]](MAX_KNOWN_WORKERS)
        self._cut = BoundedCache[tuple[ClusterRef, str], int](MAX_KNOWN_WORKERS)
        """The versions of workers that have more facts than are read."""

    async def take(self, subject: Subject, event: Event, _sequence: int) -> None:
        """Keep what an event tells of workers and runs.

        Raises InvalidMessage for times that cannot be: an account over them would take hours, or never end.
        """
        ref, facts = subject.ref, facts_of(event)
        if (facts or isinstance(event.data, JobFact)) and not self._has_happened(event.time, *times_of(event.data)):
            raise InvalidMessage("the event has a time that is too far from now")
        for worker, fact in facts:
            if isinstance(fact, Run):
                await self._add_to_run(ref, worker, fact, _END.get(event.kind, _START))
            else:
                await self._add(ref, worker, event.id, fact)
        if isinstance(event.data, JobFact):
            await self._take_run(ref, event.data)

    async def open_workers(self, ref: ClusterRef) -> tuple[OpenWorker, ...]:
        """The names of the workers whose lines are not written yet."""
        items, _ = await self._all(keyspace.open_partition(ref), "", MAX_FACTS)
        return tuple(OpenWorker(item.key.sk, item.version) for item in items)

    async def facts(self, ref: ClusterRef, worker: OpenWorker) -> tuple[WorkerFacts, ...]:
        """The facts about the workers of one name, at least those of this version. Those it cannot read are logged."""
        key = (ref, worker.name)
        known = self._known.get(key)
        if known is not None and known[0] == worker.version:
            return known[1]
        items, whole = await self._all(keyspace.facts_partition(ref, worker.name), keyspace.FACTS, MAX_FACTS)
        if not whole:
            self._cut.put(key, worker.version)
        facts = await asyncio.to_thread(self._facts, items)
        self._known.put(key, (worker.version, facts))
        return facts

    async def take_missing(self, ref: ClusterRef, worker: str, life: Life) -> None:
        """Keep that a worker has ended, as heartbeats lack it."""
        await self._add(ref, worker, f"missing:{life.started_at.isoformat()}:{life.ended_at}", life)

    def is_cut(self, ref: ClusterRef, worker: OpenWorker) -> bool:
        """Whether a worker of this version has more facts than were read."""
        return self._cut.get((ref, worker.name)) == worker.version

    async def runs(self, ref: ClusterRef, job_id: JobId) -> tuple[JobRun, ...]:
        """The runs of a job or an array task in their order, or those of all tasks of an array."""
        of_task = f"{job_id}#" if "_" in job_id else ""
        items, _ = await self._all(keyspace.runs_partition(ref, job_id), of_task, MAX_RUNS)
        return await asyncio.to_thread(_runs_of, items)

    def _facts(self, items: Iterable[Item]) -> tuple[WorkerFacts, ...]:
        return tuple(
            fact
            for item in items
            for part in _PARTS
            if part in item.attributes and (fact := self._fact(item, part)) is not None
        )

    def _fact(self, item: Item, part: str) -> WorkerFacts | None:
        """A fact in an item; None for one that this release cannot read, or whose times cannot be."""
        try:
            fact = FACT.validate_json(str(item.attributes[part]))
        except ValidationError as error:
            _log_unreadable(item, error.error_count())
            return None
        if not self._has_happened(*times_of(fact)):
            _log_unreadable(item, 1)
            return None
        return fact

    def _has_happened(self, *moments: datetime) -> bool:
        at = from_epoch(self._clock())
        return all(has_happened(moment, at) for moment in moments)

    async def _add(self, ref: ClusterRef, worker: str, fact_id: str, fact: WorkerFacts) -> None:
        key = keyspace.fact_key(ref, worker, fact_id)
        # A known fact stays. Whoever wrote it may have died before the next write, so that one follows in any case.
        with suppress(ConditionFailed):
            await self._store.write(
                Put(LEDGER, key, {"fact": fact.model_dump_json()}, Absent(), expires_at=self._expiry())
            )
        await self._reopen(ref, worker, fact_id)

    async def _add_to_run(self, ref: ClusterRef, worker: str, fact: Run | Superseded, part: str) -> None:
        """Keep a part of what is told of a run, in one item. Each part is told once, so their order does not matter."""
        seconds = int(fact.submitted_at.timestamp())
        key = keyspace.run_fact_key(ref, worker, fact.job_id, seconds, fact.restarts)
        await self._store.write(Update(LEDGER, key, set={part: fact.model_dump_json()}, expires_at=self._expiry()))
        await self._reopen(ref, worker, key.sk)

    async def _reopen(self, ref: ClusterRef, worker: str, fact_id: str) -> None:
        """Make a new version of a worker, after its new fact: who reads the version reads the fact, too."""
        await self._store.write(
            Update(LEDGER, keyspace.open_key(ref, worker), set={"fact": fact_id}, expires_at=self._expiry())
        )

    async def _take_run(self, ref: ClusterRef, fact: JobFact) -> None:
        if fact.restarts is None or (fact.started_at is None and fact.kind != "job.requeued"):
            return
        told: dict[str, Value] = {
            "job_id": fact.job_id,
            "submitted_at": fact.submitted_at.isoformat(),
            "restarts": fact.restarts,
            "uid": fact.uid,
        }
        if fact.started_at is not None:
            told |= {"started_at": fact.started_at.isoformat(), "nodes": json.dumps(fact.nodes)}
        if fact.ended_at is not None and fact.kind in JOB_ENDS:
            told |= {"ended_at": fact.ended_at.isoformat()}
        key = keyspace.run_key(ref, fact.job_id, int(fact.submitted_at.timestamp()), fact.restarts)
        await self._store.write(Update(LEDGER, key, set=told, expires_at=self._expiry()))
        around = [
            await self._store.query(
                LEDGER, key.pk, sort=keyspace.runs_until(fact.job_id, key), descending=True, limit=2
            ),
            await self._store.query(LEDGER, key.pk, sort=keyspace.runs_from(fact.job_id, key), limit=2),
        ]
        for page in around:
            if len(page.items) == 2:  # the run itself, and the one before it or after it
                await self._supersede(ref, fact.job_id, min(page.items, key=lambda item: item.key.sk).key)

    async def _supersede(self, ref: ClusterRef, job_id: JobId, earlier_key: Key) -> None:
        """Tell the workers of a run that it had ended when the job was queued again, with the next run.

        Events may arrive in any order and at any replica. Each writes its run and then reads its neighbours. A run that
        another replica writes between two neighbours meanwhile is found when the neighbours are read again.
        """
        while True:
            page = await self._store.query(
                LEDGER, earlier_key.pk, sort=keyspace.runs_from(job_id, earlier_key), limit=2
            )
            for earlier, later in pairwise(_runs_of(page.items)):
                at = later.submitted_at
                ended = earlier.ended_at is not None and earlier.ended_at <= at
                if ended or not earlier.nodes or earlier.superseded_at == at:
                    return
                fact = Superseded(job_id=job_id, submitted_at=earlier.submitted_at, restarts=earlier.restarts, at=at)
                for node in earlier.nodes:
                    await self._add_to_run(ref, node, fact, _REQUEUE)
                told: dict[str, Value] = {"superseded_at": at.isoformat()}
                await self._store.write(Update(LEDGER, earlier_key, set=told, expires_at=self._expiry()))
                break
            else:
                return

    async def _all(self, partition: str, prefix: str, most: int) -> tuple[list[Item], bool]:
        """The first items of a partition, and whether these are all."""
        found, sort = list[Item](), Prefix(prefix) if prefix else None
        async for item in all_items(
            lambda after: self._store.query(LEDGER, partition, sort=sort, limit=_PAGE, cursor=after)
        ):
            if len(found) == most:
                LEFT_OUT.labels("rest").inc()
                log.error("ledger_reads_not_all", partition=partition, read=most)
                return found, False
            found.append(item)
        return found, True

    def _expiry(self) -> int:
        return int(self._clock() + self._retention_seconds)


def _runs_of(items: Iterable[Item]) -> tuple[JobRun, ...]:
    return tuple(run for item in items if (run := _run(item)) is not None)


def _run(item: Item) -> JobRun | None:
    try:
        return JobRun.model_validate({**item.attributes, "nodes": json.loads(str(item.attributes.get("nodes", "[]")))})
    except ValidationError as error:
        _log_unreadable(item, error.error_count())
        return None


def _log_unreadable(item: Item, problems: int) -> None:
    # Not the error's text: it repeats the record.
    LEFT_OUT.labels("record").inc()
    log.error("ledger_unreadable", key=f"{item.key.pk} {item.key.sk}", problems=problems)
