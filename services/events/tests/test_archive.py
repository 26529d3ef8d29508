"""The archive on the store port: it keeps each event once, and its pages agree with a plain sort and filter."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.events import AUDITED_KINDS, AdminFact, Event, Fact, JobFact, NodeFact, event_of
from clusterra_contracts.identity import ClusterRef, SlurmUser
from clusterra_contracts.rpc.history import ReadHistory
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.visibility import TOLD_TO_ALL
from clusterra_events.archive import MAX_EXAMINED, Archive, Bound, complete_to
from clusterra_events.archive_views import sortable
from clusterra_events.merged_views import MAX_QUERY, UNREADABLE
from clusterra_events.retention import Retention
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Attributes, Key
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.page import Page
from clusterra_runtime.store.store import Put, Store, StoreUnavailable, Table, Update
from hypothesis import given
from hypothesis import strategies as st

ACME = ClusterRef(tenant="acme", cluster="main")
RIVAL = ClusterRef(tenant="rival", cluster="main")
START = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = ("job.submitted", "job.running", "job.completed", "node.registered", "node.down")
TABLE = Table("events")
ada = SlurmUser(name="ada", uid=20001, gid=20001)


def job(kind: str, job_id: str, uid: int = 20001) -> JobFact:
    return JobFact(
        kind=kind,
        job_id=job_id,
        name="hello",
        user="ada",
        uid=uid,
        partition="main",
        state="RUNNING",
        submitted_at=START,
    )


def node(kind: str, name: str) -> NodeFact:
    return NodeFact(kind=kind, node=name)


def event(fact: Fact, *, version: str = "1", seconds: float = 0, ref: ClusterRef = ACME) -> Event:
    return event_of("proxy", ref, fact, version=version, time=START + timedelta(seconds=seconds))


async def keep(archive: Archive, *events: Event, ref: ClusterRef = ACME) -> None:
    for sequence, each in enumerate(events, start=1):
        await archive.keep(Subject("event", ref, each.kind), each, sequence)


@pytest.fixture
async def archive() -> AsyncIterator[Archive]:
    async with MemoryStore() as store:
        await store.create_tables(TABLE)
        yield Archive(store, TABLE, retention=Retention(3600))


async def all_pages(archive: Archive, request: ReadHistory, *, ref: ClusterRef = ACME) -> list[Event]:
    found: list[Event] = []
    while True:
        page = await archive.read(ref, request)
        assert len(page.events) <= request.limit
        found.extend(page.events)
        if page.cursor is None:
            return found
        request = request.model_copy(update={"cursor": page.cursor})


async def test_an_event_that_is_published_again_is_kept_once(archive: Archive) -> None:
    first = event(job("job.running", "7"))
    repeated = first.model_copy(update={"time": first.time + timedelta(seconds=9)})

    await keep(archive, first, first, repeated)

    for request in (
        ReadHistory(),
        ReadHistory(subject="7"),
        ReadHistory(kinds=("job.running",)),
    ):
        assert await all_pages(archive, request) == [first]


async def test_an_event_that_was_archived_in_part_is_completed_by_its_next_publication() -> None:
    class CutOff(MemoryStore):
        """Ends between the writes of an event."""

        async def put_all(self, puts: Sequence[Put]) -> None:
            await super().put_all(puts[:1])
            raise StoreUnavailable("cut off")

    first = event(job("job.running", "7"))
    repeated = first.model_copy(update={"time": first.time + timedelta(seconds=9)})
    async with CutOff() as store:
        await store.create_tables(TABLE)
        archive = Archive(store, TABLE, retention=Retention(3600))
        with pytest.raises(StoreUnavailable):
            await keep(archive, first)

        # The first message is gone, such as with a NATS server that forgot its last writes.
        await archive.keep(Subject("event", ACME, repeated.kind), repeated, 2)
        await archive.keep(Subject("event", ACME, repeated.kind), repeated, 3)

        assert await all_pages(archive, ReadHistory()) == [first]
        assert await all_pages(archive, ReadHistory(subject="7")) == [repeated]
        assert await all_pages(archive, ReadHistory(kinds=("job.running",))) == [repeated]


async def test_an_event_that_was_archived_in_part_is_completed_by_its_next_delivery() -> None:
    class CutOff(MemoryStore):
        """Ends between the writes of an event."""

        async def put_all(self, puts: Sequence[Put]) -> None:
            raise StoreUnavailable("cut off")

    async with CutOff() as store:
        await store.create_tables(TABLE)
        told = event(job("job.running", "7"))
        with pytest.raises(StoreUnavailable):
            await keep(Archive(store, TABLE, retention=Retention(3600)), told)
        whole = MemoryStore()
        whole._tables = store._tables
        archive = Archive(whole, TABLE, retention=Retention(3600))

        await keep(archive, told)

        for request in (ReadHistory(), ReadHistory(subject="7"), ReadHistory(kinds=("job.*",))):
            assert await all_pages(archive, request) == [told]


async def keep_as_before(store: Store, told: Event, sequence: int) -> None:
    """Archive an event as releases did that wrote it in a transaction."""
    at = told.time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    sort_key = f"{at}#{sequence:020d}#{told.id}"
    views = ("time", f"subject#{told.subject}", f"kind#{told.kind}")
    copies = [
        Put(TABLE, Key(f"{ACME.key}#{view}", sort_key), {"event": told.model_dump_json()}, Absent()) for view in views
    ]
    known: Attributes = {"sort_key": sort_key, "sequence": sequence}
    id_item = Put(TABLE, Key(f"{ACME.key}#id#{told.id}", "id"), known, Absent())
    await store.transact([id_item, *copies], token=f"{ACME.key}#{sort_key}")


class Counting(MemoryStore):
    """Counts the queries, and what they read."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = 0
        self.items = 0

    async def query(self, table: Table, pk: str, **given: Any) -> Page:
        page = await super().query(table, pk, **given)
        self.queries += 1
        self.items += len(page.items)
        return page


async def behind_others(store: Store, hers: Event, others: int) -> None:
    """Archive an event behind many of other people's, which only the views need that a member's page might read."""
    for number in range(others):
        each = event(job("job.running", str(number + 100), uid=20002), seconds=number / 100)
        key = Key(f"{ACME.key}#time", f"{sortable(each.time)}#{number:020d}#{each.id}")
        await store.write(Put(TABLE, key, {"event": each.model_dump_json()}, Absent()))
    await Archive(store, TABLE, retention=Retention(3600)).keep(Subject("event", ACME, hers.kind), hers, others)


async def test_a_members_event_behind_those_of_20000_others_is_on_the_first_page() -> None:
    hers = event(job("job.running", "7"), seconds=20_000)
    async with Counting() as store:
        await store.create_tables(TABLE)
        await behind_others(store, hers, 20_000)
        archive = Archive(store, TABLE, retention=Retention(3600), whole_from=lambda: START.timestamp())

        page = await archive.read(ACME, ReadHistory(viewer=Viewer(user=ada), limit=1))

        assert (page.events, page.cursor) == ((hers,), None)
        assert store.items <= 10


async def test_before_the_view_of_owners_is_whole_each_page_reads_a_bounded_part() -> None:
    hers = event(job("job.running", "7"), seconds=20_000)
    request = ReadHistory(viewer=Viewer(user=ada), limit=1)
    async with Counting() as store:
        await store.create_tables(TABLE)
        await behind_others(store, hers, 3 * MAX_EXAMINED)
        archive = Archive(store, TABLE, retention=Retention(3600))
        found: list[Event] = []

        for _ in range(4):
            store.queries, store.items = 0, 0
            page = await archive.read(ACME, request)
            assert store.queries <= 20, "a query for each three items took longer than the gateway waits"
            assert store.items <= MAX_EXAMINED + MAX_QUERY
            found.extend(page.events)
            request = request.model_copy(update={"cursor": page.cursor})

        assert (found, page.cursor) == ([hers], None)


async def test_a_page_ends_when_its_time_is_over_and_the_next_one_goes_on(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusterra_events.archive.READ_SECONDS", 0.0)
    told = [event(node("node.down", f"n{number}"), seconds=number) for number in range(5)]
    await keep(archive, *told)

    first = await archive.read(ACME, ReadHistory(kinds=("node.*",)))

    assert first.events == tuple(told[:1])
    assert await all_pages(archive, ReadHistory(kinds=("node.*",))) == told


async def test_the_audit_reads_one_view_whatever_the_number_of_kinds() -> None:
    told = event(job("job.submitted", "7"))
    async with Counting() as store:
        await store.create_tables(TABLE)
        archive = Archive(store, TABLE, retention=Retention(3600), whole_from=lambda: START.timestamp())
        await keep(archive, told, event(job("job.running", "7"), seconds=1), event(node("node.down", "a")))
        kinds = tuple(sorted(AUDITED_KINDS))

        assert await all_pages(archive, ReadHistory(kinds=kinds, after=START, before=told.time)) == []
        assert await all_pages(archive, ReadHistory(kinds=kinds, after=START)) == [told]
        assert store.queries <= 2


async def test_what_was_archived_before_a_view_was_whole_is_not_looked_for_after_its_retention() -> None:
    now = START.timestamp()
    async with Counting() as store:
        await store.create_tables(TABLE)
        whole_from = now
        archive = Archive(store, TABLE, retention=Retention(60), whole_from=lambda: whole_from, clock=lambda: now)

        now += 61
        await archive.read(ACME, ReadHistory(viewer=Viewer(user=ada)))

        assert store.queries == 1 + len(TOLD_TO_ALL)


async def test_whoever_sees_only_their_own_also_sees_that_the_cluster_was_paused(archive: Archive) -> None:
    hers = event(job("job.running", "7"), seconds=1)
    paused, resumed = (
        event(AdminFact(kind=kind, actor="boss", subject="c1"), seconds=at)
        for kind, at in (("cluster.paused", 0), ("cluster.resumed", 2))
    )
    other = event(AdminFact(kind="member.changed", actor="boss", subject="bob"), seconds=3)
    await keep(archive, paused, hers, resumed, other)
    viewer = Viewer(user=ada)

    assert await all_pages(archive, ReadHistory(viewer=viewer)) == [paused, hers, resumed]
    assert await all_pages(archive, ReadHistory(viewer=viewer, newest_first=True)) == [resumed, hers, paused]
    assert await all_pages(archive, ReadHistory(viewer=viewer, kinds=("job.*",))) == [hers]


async def test_events_of_earlier_releases_are_read_recognised_and_forgotten(archive: Archive) -> None:
    earlier, later = event(job("job.submitted", "7")), event(job("job.running", "7"), seconds=1)
    await keep_as_before(archive._store, earlier, 1)
    repeated = earlier.model_copy(update={"time": earlier.time + timedelta(seconds=9)})

    await keep(archive, repeated, later)

    for request in (ReadHistory(), ReadHistory(subject="7"), ReadHistory(kinds=("job.*",))):
        assert await all_pages(archive, request) == [earlier, later]
    assert await archive.forget(ACME, 10) == 2
    assert (await archive._store.scan(TABLE, limit=100)).items == ()


@pytest.mark.parametrize(
    ("fact", "items"), [(node("node.down", "n1"), 5), (job("job.running", "7"), 6), (job("job.submitted", "7"), 7)]
)
async def test_an_event_has_its_id_and_one_item_in_each_of_its_views(fact: Fact, items: int) -> None:
    async with MemoryStore() as store:
        await store.create_tables(TABLE)

        await keep(Archive(store, TABLE, retention=Retention(3600)), event(fact))

        assert len((await store.scan(TABLE, limit=100)).items) == items


async def test_events_of_one_second_are_in_the_order_of_their_publication(archive: Archive) -> None:
    facts = (job("job.submitted", "7"), job("job.running", "7"), job("job.completed", "7"), node("node.down", "a"))

    await keep(archive, *(event(fact) for fact in facts))

    assert [each.kind for each in await all_pages(archive, ReadHistory(limit=2))] == [fact.kind for fact in facts]
    of_job = await all_pages(archive, ReadHistory(subject="7", newest_first=True, limit=2))
    assert [each.kind for each in of_job] == ["job.completed", "job.running", "job.submitted"]


async def test_event_ids_are_unique_only_within_the_cluster_of_the_subject(archive: Archive) -> None:
    theirs = event(node("node.down", "n1"), ref=RIVAL)
    await keep(archive, theirs)  # acme publishes an event with an id of its rival
    await keep(archive, theirs, ref=RIVAL)
    assert await all_pages(archive, ReadHistory(), ref=RIVAL) == [theirs]


async def test_an_event_on_the_subject_of_another_kind_is_rejected(archive: Archive) -> None:
    with pytest.raises(InvalidMessage, match=r"job\.completed"):
        await archive.keep(Subject("event", ACME, "worker.started"), event(job("job.completed", "7")), 1)
    assert await all_pages(archive, ReadHistory()) == []


async def test_an_event_whose_names_are_too_long_for_keys_is_rejected_for_good(archive: Archive) -> None:
    long = event(node("node.down", "n1")).model_copy(update={"subject": "n" * 2_100})

    with pytest.raises(InvalidMessage):
        await keep(archive, long)
    assert await all_pages(archive, ReadHistory()) == []


async def test_events_are_removed_after_the_retention_time() -> None:
    now = START.timestamp()
    async with MemoryStore(clock=lambda: now) as store:
        await store.create_tables(TABLE)
        archive = Archive(store, TABLE, retention=Retention(60), clock=lambda: now)
        await keep(archive, event(node("node.down", "n1")))

        now += 59

        assert len(await all_pages(archive, ReadHistory())) == 1

        now += 2

        assert await all_pages(archive, ReadHistory()) == []


async def test_a_page_reads_a_bounded_part_of_a_busy_entity(archive: Archive) -> None:
    busy = [event(node("node.registered", "n1"), version=str(n), seconds=n) for n in range(MAX_EXAMINED + 5)]
    rare = event(node("node.down", "n1"), seconds=MAX_EXAMINED + 9)
    await keep(archive, *busy, rare)
    request = ReadHistory(subject="n1", kinds=("node.down",))

    first = await archive.read(ACME, request)

    assert first.events == ()
    assert first.cursor is not None
    assert await all_pages(archive, request) == [rare]


@pytest.mark.parametrize("kind", ["job.exploded", "job", "*", "job.*.*", "", "frob.*"])
async def test_an_unknown_kind_is_rejected_with_a_list_of_kinds(archive: Archive, kind: str) -> None:
    with pytest.raises(RpcFailed) as failed:
        await archive.read(ACME, ReadHistory(kinds=(kind,)))
    assert failed.value.error.kind == "invalid"
    assert "job.running" in failed.value.error.hint


@pytest.mark.parametrize("cursor", ["x", "é", "MjAyNg==", "!!!!", ""])
async def test_a_foreign_cursor_is_rejected(archive: Archive, cursor: str) -> None:
    with pytest.raises(RpcFailed) as failed:
        await archive.read(ACME, ReadHistory(cursor=cursor))
    assert failed.value.error.kind == "invalid"


moments = st.integers(0, 12).map(lambda seconds: START + timedelta(seconds=seconds))
facts = st.one_of(
    st.builds(job, st.sampled_from(KINDS[:3]), st.sampled_from(["1", "2_1"]), st.sampled_from([20001, 20002])),
    st.builds(node, st.sampled_from(KINDS[3:]), st.sampled_from(["n1", "n2"])),
)
occurrences = st.lists(st.tuples(facts, st.integers(0, 12), st.booleans()), max_size=25)
audited = (*sorted(AUDITED_KINDS),)
requests = st.builds(
    ReadHistory,
    viewer=st.none() | st.builds(Viewer, user=st.just(ada), admin=st.booleans()),
    kinds=st.none() | st.just(audited) | st.lists(st.sampled_from([*KINDS, "job.*", "node.*"]), max_size=3).map(tuple),
    subject=st.none() | st.sampled_from(["1", "n1", "nobody"]),
    after=st.none() | moments,
    before=st.none() | moments,
    newest_first=st.booleans(),
    limit=st.integers(1, 7),
)


def matches(request: ReadHistory, event: Event) -> bool:
    kinds, viewer = request.kinds, request.viewer
    own = isinstance(event.data, JobFact) and event.data.uid == ada.uid
    return (
        (viewer is None or viewer.admin or own)
        and (kinds is None or any(event.kind == kind or event.kind.startswith(kind.rstrip("*")) for kind in kinds))
        and (request.subject is None or event.subject == request.subject)
        and (request.after is None or event.time >= request.after)
        and (request.before is None or event.time < request.before)
    )


@given(occurrences, requests, st.none() | st.integers(0, 13))
async def test_pages_contain_the_matching_events_in_order(
    published: list[tuple[Fact, int, bool]], request_: ReadHistory, whole_from: int | None
) -> None:
    """Also those of releases without the narrow views, which are whole from a time on, or were never whole yet."""
    events = [event(fact, version=str(number), seconds=at) for number, (fact, at, _) in enumerate(published)]
    since = None if whole_from is None else START.timestamp() + whole_from
    async with MemoryStore() as store:
        await store.create_tables(TABLE)
        archive = Archive(store, TABLE, retention=Retention(10**9), whole_from=lambda: since)

        for sequence, (each, (_, at, earlier)) in enumerate(zip(events, published, strict=True), start=1):
            if earlier and (whole_from is None or at < whole_from):
                await keep_as_before(store, each, sequence)
            else:
                await archive.keep(Subject("event", ACME, each.kind), each, sequence)

        expected = sorted(
            (each for each in events if matches(request_, each)),
            key=lambda each: (each.time, events.index(each)),
            reverse=request_.newest_first,
        )

        assert await all_pages(archive, request_) == expected


@pytest.mark.parametrize("newest_first", [False, True])
async def test_pages_of_a_position_have_no_later_event_but_those_of_an_earlier_stream(
    archive: Archive, newest_first: bool
) -> None:
    told = [event(node("node.down", f"n{number}"), seconds=number) for number in range(20)]
    # The stream was made at second 5: what is older has positions of the stream before it.
    await keep(archive, *told[:5])
    for number, each in enumerate(told[:5], start=100):
        again = each.model_copy(update={"id": f"{each.id}-older"})
        await archive.keep(Subject("event", ACME, each.kind), again, number)
    for number, each in enumerate(told[5:], start=6):
        await archive.keep(Subject("event", ACME, each.kind), each, number)
    bound = Bound(position=12, counts_from=START + timedelta(seconds=5))

    found: list[Event] = []
    request = ReadHistory(complete_to=12, newest_first=newest_first, limit=3)
    while True:
        page = await archive.read(ACME, request, bound)
        assert page.position == 12
        found += page.events
        if page.cursor is None:
            break
        # What was published meanwhile moves no page, whatever a continued request asks.
        request = request.model_copy(update={"cursor": page.cursor, "complete_to": 99})
        assert complete_to(request) == 12

    assert sorted(each.subject for each in found) == sorted(
        [*(f"n{number}" for number in range(5)), *(f"n{number}" for number in range(12))]
    )


async def test_pages_of_a_position_have_no_event_that_happened_before_its_stream_and_was_published_later(
    archive: Archive,
) -> None:
    """A stream that is numbered by time was made at second 5, and has told since what happened before."""
    told = [event(node("node.down", f"n{number}"), seconds=number) for number in range(9)]
    for number, each in enumerate(told[:4], start=100):
        await archive.keep(Subject("event", ACME, each.kind), each, number)
    for number, each in enumerate(told[4:], start=1000):
        await archive.keep(Subject("event", ACME, each.kind), each, number)

    page = await archive.read(ACME, ReadHistory(complete_to=999), Bound(position=999))

    assert list(page.events) == told[:4]


async def test_a_cursor_of_pages_without_a_position_continues_without_one(archive: Archive) -> None:
    await keep(archive, *(event(node("node.down", f"n{number}"), seconds=number) for number in range(3)))

    page = await archive.read(ACME, ReadHistory(limit=1))

    assert page.position is None
    assert complete_to(ReadHistory(limit=1, cursor=page.cursor, complete_to=7)) is None


@pytest.mark.parametrize("damaged", ['{"id": 7}', "no JSON", None])
async def test_an_unreadable_event_hides_no_other_and_is_counted(archive: Archive, damaged: str | None) -> None:
    first, second, third = [event(node("node.down", name), seconds=n) for n, name in enumerate(("a", "b", "c"))]
    await keep(archive, first, second, third)
    page = await archive._store.query(TABLE, f"{ACME.key}#time", limit=3)
    await archive._store.write(Update(TABLE, page.items[1].key, set={"event": damaged}))
    before = UNREADABLE._value.get()

    assert await all_pages(archive, ReadHistory(limit=1)) == [first, third]
    assert UNREADABLE._value.get() > before


async def test_an_unreadable_event_keeps_no_cluster_from_being_forgotten(archive: Archive) -> None:
    await keep(archive, event(node("node.down", "a")), event(node("node.down", "b"), seconds=1))
    page = await archive._store.query(TABLE, f"{ACME.key}#time", limit=1)
    await archive._store.write(Update(TABLE, page.items[0].key, set={"event": "no JSON"}))

    assert await archive.forget(ACME, 10) == 2

    assert await archive.forget(ACME, 10) == 0
    assert await all_pages(archive, ReadHistory()) == []
