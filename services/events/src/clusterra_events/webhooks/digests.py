"""Counts the events of the tasks of arrays, and says when they are told as a digest. Pure.

The first failure of an array is no part of this: it is sent at once as it is, and only its total is kept here. Every
other event of a task is counted, in the same write in which the progress passes it. A digest is due

- when the window of the array is over: `FIRST_WINDOW` after the first event, and `GROWTH` times as long after each
  digest;
- when the array was quiet for a part of its window, so that what came last is not told days later;
- at once after the last task, where Slurm has told that none is left.

A digest that is due is sealed: it is stored before it is sent, so that it is the same in every attempt. Meanwhile all
other events wait, as they do behind one that fails.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated, Any

from clusterra_contracts.events import MAX_DIGEST_TASKS, DigestFact, Event, Fact, JobFact, MailTypes, event_of
from clusterra_contracts.identity import ClusterRef, Id, JobId, Moment
from pydantic import Field

from clusterra_events.webhooks.records import Record

FIRST_WINDOW = timedelta(minutes=1)
GROWTH = 4
"""Windows of 1, 4, 16, ... minutes: an array that takes 7 days has at most 9 digests besides the one at its end."""
_LONGEST_GROWTH = 8
"""After so many digests, the window stays as it is: 45 days."""
QUIET_SHARE = 16
"""An array is quiet without an event for this part of its window, and for `FIRST_WINDOW` at least."""
MOST_ARRAYS = 100
"""The most arrays whose events are counted at a time. With more, the digest of one is sent early."""
KEPT_AFTER_END = timedelta(hours=1)
"""How long an array is known after its last task, so that what comes late does not begin it anew."""
KEPT_SILENT = timedelta(days=7)
"""How long an array is known without an event."""
MAX_NAME_CHARACTERS = 100
"""A longer name of a job is cut off here: whoever submits a job chooses it."""
CLOCK_SKEW = timedelta(minutes=1)
SERVICE = "events"
FAILURES = frozenset({"job.failed", "job.timeout"})

type Counts = dict[str, int]


class ArrayCounts(Record):
    """The events of the tasks of one array. Times by our clock, but for `since` and `until`."""

    cluster: Id
    job_id: JobId
    name: str
    user: str
    uid: int
    mail: MailTypes = ()
    number: Annotated[int, Field(ge=0)] = 0
    """How many digests there were."""
    counts: Counts = Field(default_factory=dict)
    """By kind, since the last digest."""
    totals: Counts = Field(default_factory=dict)
    failed_tasks: tuple[int, ...] = ()
    failure_told: bool = False
    """Whether the first failure was sent as it is."""
    tasks_left: int | None = None
    ended: bool = False
    """Whether a digest has told the end. Another one is then not sent before its window is over."""
    since: Moment | None = None
    until: Moment | None = None
    first_at: Moment | None = None
    """When the first event since the last digest was counted."""
    last_at: Moment
    """When the last event was counted or told."""
    told_at: Moment | None = None
    """When the last digest was sealed."""

    @property
    def due_at(self) -> datetime | None:
        """When the digest is due; None without anything to tell."""
        if self.first_at is None:
            return None
        if self.tasks_left == 0 and not self.ended:
            return self.last_at
        window = FIRST_WINDOW * int(GROWTH ** min(self.number, _LONGEST_GROWTH))
        quiet = max(window / QUIET_SHARE, FIRST_WINDOW)
        begun = self.first_at if self.told_at is None else max(self.told_at, self.first_at - window + FIRST_WINDOW)
        return min(begun + window, self.last_at + quiet)

    def is_due(self, at: datetime) -> bool:
        """Whether the digest is due. Counts that are of the future are those of a clock that went ahead."""
        due_at = self.due_at
        return due_at is not None and (due_at <= at or self.last_at > at + CLOCK_SKEW)

    def is_forgotten(self, at: datetime) -> bool:
        """Whether nothing is to be told, and nothing more is expected."""
        if self.first_at is not None:
            return False
        return at - self.last_at > (KEPT_AFTER_END if self.ended else KEPT_SILENT)

    def with_event(self, event: Event, fact: JobFact, at: datetime) -> "ArrayCounts":
        """With one more event of a task, which is told by the next digest."""
        failed = self.failed_tasks
        if fact.kind in FAILURES and len(failed) < MAX_DIGEST_TASKS:
            failed = (*failed, _task(fact))
        update = {
            "counts": _plus_one(self.counts, fact.kind),
            "failed_tasks": failed,
            "since": event.time if self.since is None else min(self.since, event.time),
            "until": event.time if self.until is None else max(self.until, event.time),
            "first_at": self.first_at or at,
        }
        return self._seen(fact, at).model_copy(update=update)

    def with_failure_told(self, fact: JobFact, at: datetime) -> "ArrayCounts":
        """With a failure that was sent as it is."""
        return self._seen(fact, at).model_copy(update={"failure_told": True})

    def _seen(self, fact: JobFact, at: datetime) -> "ArrayCounts":
        left = self.tasks_left if fact.tasks_left is None else fact.tasks_left
        update = {"totals": _plus_one(self.totals, fact.kind), "last_at": at, "tasks_left": left, **_owner(fact)}
        return self.model_copy(update=update)

    def told(self, at: datetime) -> "ArrayCounts":
        """After its digest was sealed."""
        update = {
            "number": self.number + 1,
            "counts": {},
            "failed_tasks": (),
            "ended": self.ended or self.tasks_left == 0,
            "since": None,
            "until": None,
            "first_at": None,
            "told_at": at,
        }
        return self.model_copy(update=update)

    def digest(self) -> DigestFact:
        """What is told."""
        return DigestFact(
            job_id=self.job_id,
            name=self.name,
            user=self.user,
            uid=self.uid,
            mail=self.mail,
            number=self.number + 1,
            counts=self.counts,
            totals=self.totals,
            failed_tasks=tuple(f"{self.job_id}_{task}" for task in self.failed_tasks),
            tasks_left=self.tasks_left,
            since=self.since or self.last_at,
            until=self.until or self.last_at,
        )


class Sealed(Record):
    """A digest that is sent next, and until it is delivered or given up."""

    cluster: Id
    serial: int
    """Which digest of the webhook it is, since its `deliver_from`."""
    fact: DigestFact

    def event(self, tenant: str, deliver_from_id: str) -> tuple[ClusterRef, Event]:
        """The event of it, the same each time."""
        ref = ClusterRef(tenant=tenant, cluster=self.cluster)
        version = f"{deliver_from_id}.{self.serial}"
        return ref, event_of(SERVICE, ref, self.fact, version=version, time=self.fact.until)


class Digests(Record):
    """All arrays whose tasks have events, the one that was known first at the beginning."""

    arrays: tuple[ArrayCounts, ...] = ()
    sealed: Sealed | None = None
    made: Annotated[int, Field(ge=0)] = 0
    """How many digests were sealed."""

    @property
    def is_full(self) -> bool:
        """Whether a digest must be sealed before another event is counted."""
        return len(self.arrays) > MOST_ARRAYS

    def tells_at_once(self, cluster: str, fact: JobFact) -> bool:
        """Whether an event of a task is the first failure of its array, which is sent as it is."""
        if fact.kind not in FAILURES:
            return False
        known = self._known(cluster, fact)
        return known is None or not known.failure_told

    def counted(self, cluster: str, event: Event, fact: JobFact, at: datetime) -> "Digests":
        """With one more event of a task."""
        return self._with(cluster, fact, at, lambda array: array.with_event(event, fact, at))

    def failure_told(self, cluster: str, fact: JobFact, at: datetime) -> "Digests":
        """After the first failure of an array was delivered."""
        return self._with(cluster, fact, at, lambda array: array.with_failure_told(fact, at))

    def due_at(self, at: datetime) -> datetime | None:
        """When the next digest is due; None while there is nothing to tell."""
        if self.sealed is not None or self.is_full:
            return at
        return min((due_at for each in self.arrays if (due_at := each.due_at) is not None), default=None)

    def sealing(self, at: datetime, *, all_at_once: bool = False) -> "Digests":
        """With a digest that is due sealed, where there is one. `all_at_once`: each that has something to tell is due.

        Arrays of which nothing more is expected are forgotten.
        """
        if self.sealed is not None:
            return self
        due = next((each for each in self.arrays if each.is_due(at) or (all_at_once and each.first_at)), None)
        if due is not None:
            return self._sealed(due, due.told(at))
        kept = tuple(each for each in self.arrays if not each.is_forgotten(at))
        if len(kept) > MOST_ARRAYS:
            kept = _with_room(kept)
        if len(kept) > MOST_ARRAYS:
            return self._sealed(kept[0], None)
        return self if len(kept) == len(self.arrays) else self.model_copy(update={"arrays": kept})

    def told(self) -> "Digests":
        """After the sealed digest was delivered or given up."""
        return self.model_copy(update={"sealed": None})

    def _sealed(self, array: ArrayCounts, after: ArrayCounts | None) -> "Digests":
        sealed = Sealed(cluster=array.cluster, serial=self.made + 1, fact=array.digest())
        others = (after if each is array else each for each in self.arrays)
        arrays = tuple(each for each in others if each is not None)
        return self.model_copy(update={"arrays": arrays, "sealed": sealed, "made": self.made + 1})

    def _known(self, cluster: str, fact: JobFact) -> ArrayCounts | None:
        job_id = array_of(fact)
        return next((each for each in self.arrays if each.job_id == job_id and each.cluster == cluster), None)

    def _with(
        self, cluster: str, fact: JobFact, at: datetime, change: Callable[[ArrayCounts], ArrayCounts]
    ) -> "Digests":
        if (known := self._known(cluster, fact)) is not None:
            arrays = tuple(change(each) if each is known else each for each in self.arrays)
            return self.model_copy(update={"arrays": arrays})
        new = ArrayCounts(cluster=cluster, job_id=array_of(fact), last_at=at, **_owner(fact))
        return self.model_copy(update={"arrays": (*_with_room(self.arrays), change(new))})


def task_fact(fact: Fact) -> JobFact | None:
    """A fact about a task of an array; None for all others, also those about an array as a whole."""
    return fact if isinstance(fact, JobFact) and "_" in fact.job_id else None


def array_of(fact: JobFact) -> JobId:
    """The id of the array of a task."""
    return fact.job_id.partition("_")[0]


def _task(fact: JobFact) -> int:
    return int(fact.job_id.partition("_")[2])


def _owner(fact: JobFact) -> dict[str, Any]:
    names = {"name": fact.name[:MAX_NAME_CHARACTERS], "user": fact.user[:MAX_NAME_CHARACTERS]}
    return {**names, "uid": fact.uid, "mail": fact.mail}


def _plus_one(counts: Counts, kind: str) -> Counts:
    return {**counts, kind: counts.get(kind, 0) + 1}


def _with_room(arrays: tuple[ArrayCounts, ...]) -> tuple[ArrayCounts, ...]:
    """Room for one more, where an array with nothing to tell can be forgotten: one that has ended, or is silent."""
    if len(arrays) < MOST_ARRAYS:
        return arrays
    idle = [each for each in arrays if each.first_at is None]
    if not idle:
        return arrays
    gone = min(idle, key=lambda each: (not each.ended, each.last_at))
    return tuple(each for each in arrays if each is not gone)
