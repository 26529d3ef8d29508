"""The digests of arrays, as pure rules: each event is told once, and an array has few messages."""

from bisect import bisect
from collections import Counter
from datetime import UTC, datetime, timedelta

from clusterra_contracts.events import Event, JobFact, JobKind, event_of
from clusterra_contracts.identity import ClusterRef
from clusterra_events.webhooks.digests import (
    FIRST_WINDOW,
    KEPT_AFTER_END,
    KEPT_SILENT,
    MAX_NAME_CHARACTERS,
    MOST_ARRAYS,
    Digests,
    Sealed,
    task_fact,
)
from clusterra_events.webhooks.progress import DIGEST, Failing, Progress
from hypothesis import given, settings
from hypothesis import strategies as st

REF = ClusterRef(tenant="acme", cluster="main")
START = datetime(2026, 11, 1, tzinfo=UTC)
MOST_MESSAGES = 12
KINDS = st.sampled_from(["job.running", "job.completed", "job.failed", "job.timeout", "job.cancelled", "job.requeued"])


def task(
    array: int, number: int, kind: JobKind = "job.completed", name: str = "align", left: int | None = None
) -> tuple[Event, JobFact]:
    fact = JobFact(
        kind=kind,
        job_id=f"{array}_{number}",
        name=name,
        user="ada",
        uid=2000,
        partition="main",
        state="COMPLETED",
        submitted_at=START,
        tasks_left=left,
    )
    return event_of("proxy", REF, fact, version="1", time=START), fact


class Told:
    """Deals with events as a visit does, with a receiver that takes everything."""

    def __init__(self) -> None:
        self.digests = Digests()
        self.at_once = list[JobFact]()
        self.sealed = list[Sealed]()
        self.taken = Counter[str]()
        self.totals = list[Counter[str]]()
        """What was taken until each digest."""

    def take(self, event: Event, fact: JobFact, at: datetime) -> None:
        self.taken[fact.kind] += 1
        if self.digests.tells_at_once(REF.cluster, fact):
            self.at_once.append(fact)
            self.digests = self.digests.failure_told(REF.cluster, fact, at)
        else:
            self.digests = self.digests.counted(REF.cluster, event, fact, at)
        if self.digests.is_full:
            self._tell_one(at)

    def wait_until(self, at: datetime) -> None:
        """Tell what is due before a time, each when it is due."""
        while (due_at := self.digests.due_at(at)) is not None and due_at < at:
            self.tell(due_at)

    def tell(self, at: datetime, *, all_at_once: bool = False) -> None:
        while self._tell_one(at, all_at_once=all_at_once):
            pass

    def _tell_one(self, at: datetime, *, all_at_once: bool = False) -> bool:
        self.digests = Digests.model_validate_json(self.digests.model_dump_json())
        self.digests = self.digests.sealing(at, all_at_once=all_at_once)
        if self.digests.sealed is None:
            return False
        self.sealed.append(self.digests.sealed)
        self.totals.append(self.taken.copy())
        self.digests = self.digests.told()
        return True

    def counts(self) -> Counter[str]:
        found = Counter[str](each.kind for each in self.at_once)
        for sealed in self.sealed:
            found.update(sealed.fact.counts)
        return found


ARRIVALS = st.one_of(
    st.lists(st.floats(0, 7 * 86_400), min_size=1, max_size=300),
    st.lists(st.integers(0, 7 * 24 * 60).map(lambda minute: minute * 60.0), min_size=1, max_size=300),
    # Always just after the digest before: as many digests as there can be.
    st.floats(0, 70).map(lambda first: [first + each * 61.0 for each in range(9900)]),
)


@settings(max_examples=40, deadline=None)
@given(
    arrivals=ARRIVALS,
    kinds=st.lists(KINDS, min_size=1, max_size=20),
    poll=st.sampled_from([None, 1.0, 60.0, 3000.0]),
)
def test_an_array_has_at_most_12_messages_and_each_event_is_told_once(
    arrivals: list[float], kinds: list[JobKind], poll: float | None
) -> None:
    """`poll`: the seconds in which all events tell the same number of tasks that are left; None: none tells it."""
    told = Told()
    arrivals.sort()
    for number, seconds in enumerate(arrivals):
        at, kind = START + timedelta(seconds=seconds), kinds[number % len(kinds)]
        told.wait_until(at)
        left = None if poll is None else len(arrivals) - bisect(arrivals, (seconds // poll + 1) * poll)
        told.take(*task(42, number, kind, left=left), at)
        if number % 7 == 0:
            told.tell(at)
    told.wait_until(START + timedelta(days=100))

    assert told.counts() == told.taken
    assert len(told.at_once) + len(told.sealed) <= MOST_MESSAGES
    assert len(told.at_once) == bool(told.taken["job.failed"] + told.taken["job.timeout"])
    assert [each.fact.number for each in told.sealed] == list(range(1, len(told.sealed) + 1))
    assert [each.fact.totals for each in told.sealed] == told.totals


@settings(max_examples=60, deadline=None)
@given(
    events=st.lists(st.tuples(st.integers(1, 150), KINDS, st.floats(0, 3600)), max_size=400),
    flush=st.booleans(),
)
def test_of_many_arrays_each_event_is_told_once_under_an_id_of_its_own(
    events: list[tuple[int, JobKind, float]], flush: bool
) -> None:
    told, at, sent = Told(), START, dict[str, Counter[str]]()
    for number, (array, kind, pause) in enumerate(events):
        at += timedelta(seconds=pause)
        told.wait_until(at)
        told.take(*task(array, number, kind), at)
        sent.setdefault(str(array), Counter())[kind] += 1
        assert len(told.digests.arrays) <= MOST_ARRAYS
    told.tell(at, all_at_once=True) if flush else told.wait_until(at + timedelta(days=100))

    found = dict[str, Counter[str]]()
    for fact in told.at_once:
        found.setdefault(fact.job_id.partition("_")[0], Counter())[fact.kind] += 1
    for sealed in told.sealed:
        found.setdefault(sealed.fact.job_id, Counter()).update(sealed.fact.counts)
    assert found == sent
    ids = [each.event("acme", "0" * 16)[1].id for each in told.sealed]
    assert len(set(ids)) == len(ids)


def test_a_digest_is_due_a_minute_after_the_first_event_and_later_each_time() -> None:
    told, at = Told(), START
    gaps = []
    for number in range(2000):
        before = len(told.sealed)
        told.take(*task(42, number), at)
        told.tell(at)
        if len(told.sealed) > before:
            gaps.append(at)
        at += timedelta(seconds=30)

    minutes = [round((each - START).total_seconds() / 60) for each in gaps]
    assert minutes == [1, 5, 21, 85, 341]


def test_what_came_last_is_told_after_a_quiet_time_and_not_with_the_window() -> None:
    told, at = Told(), START
    for number in range(1000):
        at = START + timedelta(minutes=number)
        told.wait_until(at)
        told.take(*task(42, number), at)
    due_at = told.digests.due_at(at)

    assert due_at is not None
    assert due_at - at <= timedelta(minutes=64)
    told.wait_until(due_at + FIRST_WINDOW)
    assert told.sealed[-1].fact.totals == {"job.completed": 1000}
    assert told.digests.due_at(due_at) is None


def test_the_last_task_is_told_at_once_and_what_comes_after_it_later() -> None:
    told = Told()
    for number in range(10):
        told.take(*task(42, number, left=max(5 - number, 0)), START)
    assert told.digests.due_at(START) == START
    told.tell(START)
    for number in range(10):
        told.take(*task(42, number, "job.requeued", left=number % 2), START)
        told.tell(START)
    told.wait_until(START + timedelta(days=1))

    assert [each.fact.totals for each in told.sealed] == [
        {"job.completed": 10},
        {"job.completed": 10, "job.requeued": 10},
    ]
    assert [each.fact.tasks_left for each in told.sealed] == [0, 1]
    told.tell(START + KEPT_AFTER_END + timedelta(seconds=1))
    assert told.digests.arrays == ()


def test_a_digest_names_the_first_tasks_that_failed_since_the_one_before() -> None:
    told = Told()
    for number in range(40):
        told.take(*task(42, number, "job.failed"), START)
    told.tell(START + FIRST_WINDOW)
    told.take(*task(42, 40, "job.timeout"), START + FIRST_WINDOW)
    told.wait_until(START + timedelta(days=1))

    assert [each.job_id for each in told.at_once] == ["42_0"]
    assert told.sealed[0].fact.failed_tasks == tuple(f"42_{number}" for number in range(1, 21))
    assert told.sealed[0].fact.counts == {"job.failed": 39}
    assert told.sealed[1].fact.failed_tasks == ("42_40",)
    assert told.sealed[1].fact.totals == {"job.failed": 40, "job.timeout": 1}


def test_a_sealed_digest_stays_as_it_is_while_it_is_not_delivered() -> None:
    told = Told()
    told.take(*task(42, 0), START)
    due = told.digests.sealing(START + FIRST_WINDOW)
    again = Digests.model_validate_json(due.model_dump_json()).sealing(START + timedelta(days=2))

    assert due.sealed is not None
    assert again.sealed == due.sealed
    assert again.sealed.event("acme", "0" * 16) == due.sealed.event("acme", "0" * 16)
    assert due.told().sealing(START + timedelta(days=2)).sealed is None


def test_a_silent_array_is_forgotten() -> None:
    told = Told()
    told.take(*task(42, 0, "job.failed"), START)
    told.tell(START + KEPT_SILENT)
    assert len(told.digests.arrays) == 1

    told.tell(START + KEPT_SILENT + timedelta(seconds=1))
    assert told.digests == Digests()


def test_a_clock_that_went_ahead_delays_no_digest() -> None:
    told = Told()
    told.take(*task(42, 0), START + timedelta(days=400))
    told.tell(START)

    assert len(told.sealed) == 1


def test_digests_wait_behind_an_event_that_fails() -> None:
    digests = Told()
    digests.take(*task(42, 0), START)
    progress = Progress(deliver_from_id="0" * 16, deliver_from_time=START, sequence=7, digests=digests.digests)
    failing = progress.model_copy(update={"failing": Failing(sequence=8, attempts=1, first_at=START)})
    later = START + timedelta(days=1)

    assert failing.sealing(later, all_at_once=False) == failing
    sealed = failing.at_end().sealing(later, all_at_once=False)
    assert sealed.digests.sealed is not None
    tried = sealed.model_copy(update={"failing": Failing(sequence=DIGEST, attempts=1, first_at=later)})
    assert tried.at_end() == tried
    passed = tried.digest_delivered()
    assert (passed.sequence, passed.digests.sealed, passed.failing) == (7, None, None)
    assert passed.logged == tried.logged + 1 == tried.digest_given_up().logged


def test_the_state_is_bounded() -> None:
    told, name = Told(), "\U0001f600\x01" * 500
    for array in range(4_000_000_000, 4_000_000_000 + MOST_ARRAYS + 1):
        for number in range(4_000_000, 4_000_021):
            event, fact = task(array, number, "job.failed", name)
            told.digests = told.digests.counted(REF.cluster, event, fact, START)
        for kind in ("job.running", "job.completed", "job.timeout", "job.cancelled", "job.requeued"):
            for _ in range(2):
                event, fact = task(array, 1, kind, name)
                told.digests = told.digests.counted(REF.cluster, event, fact, START)
    worst = Progress(deliver_from_id="0" * 16, deliver_from_time=START, digests=told.digests.sealing(START))

    assert len(told.digests.arrays[0].name) == MAX_NAME_CHARACTERS
    assert len(worst.model_dump_json().encode()) < 200 * 1024


def test_only_events_of_tasks_are_counted() -> None:
    _, fact = task(42, 7)

    assert task_fact(fact) == fact
    assert task_fact(fact.model_copy(update={"job_id": "42"})) is None


def test_no_digest_without_content_follows_one_that_was_due_among_many_arrays() -> None:
    told = Told()
    for array in range(1, MOST_ARRAYS + 2):
        event, fact = task(array, 1)
        told.digests = told.digests.counted(REF.cluster, event, fact, START)

    told.tell(START + timedelta(minutes=2))
    told.tell(START + timedelta(minutes=2))

    assert len(told.sealed) == MOST_ARRAYS + 1
    assert all(each.fact.counts for each in told.sealed)
    assert len(told.digests.arrays) <= MOST_ARRAYS
