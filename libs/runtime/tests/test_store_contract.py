"""What every store promises, asked of each adapter."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from clusterra_runtime.store.condition import Absent, Compare, Condition, Missing, Present, VersionIs, at_most
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.item import InvalidItem, Item, Key, Value
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.page import Between, InvalidCursor, Prefix
from clusterra_runtime.store.store import (
    Check,
    ConditionFailed,
    Delete,
    Index,
    ItemTooLarge,
    Put,
    Store,
    StoreError,
    Table,
    TableMissing,
    TokenReused,
    TransactionCancelled,
    Update,
    Write,
)

BY_STATE = Index("by-state", "state", "since")
JOBS = Table("jobs", (BY_STATE,))
QUOTAS = Table("quotas")
KEY = Key("acme/c1", "job#1")
NOW = 1_800_000_000


@dataclass
class Clock:
    now: float = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "dynamodb"])
def adapter(request: pytest.FixtureRequest, clock: Clock) -> Store:
    if request.param == "memory":
        return MemoryStore(clock=clock)
    request.getfixturevalue("aws")
    return DynamoDBStore(table_prefix=f"{uuid.uuid4()}-", clock=clock)


@pytest.fixture
async def store(adapter: Store) -> AsyncIterator[Store]:
    async with adapter as opened:
        await opened.create_tables(JOBS, QUOTAS)
        yield opened


async def put(store: Store, key: Key = KEY, expires_at: int | None = None, **attributes: Any) -> Item:
    return await store.write(Put(JOBS, key, attributes, Absent(), expires_at))


async def test_an_item_comes_back_as_it_was_written(store: Store) -> None:
    attributes: dict[str, Any] = {
        "text": "Zeichen: äöü 🦀 \u0000 \U0010ffff",
        "empty": "",
        "yes": True,
        "no": False,
        "nothing": None,
        "int": 12345678901234567890,
        "negative": -7,
        "float": 0.1,
        "small": 1.5e-100,
        "exact": 1 / 3,
        "bytes": b"\x00\xff",
        "no bytes": b"",
        "list": [1, "two", [None, {"deep": [True]}], []],
        "map": {"inner": {"size": 1.25}, "empty": {}},
        # DynamoDB's reserved words, and names that are none of its syntax.
        "name": "n",
        "status": "s",
        "size": 3,
        "order by": "x",
        "a.b[0]": "path?",
        "ünï": 1,
        ":v0": "colon",
        "#n0": "hash",
    }
    written = await put(store, **attributes)
    assert written == Item(KEY, attributes, version=1)
    assert await store.get(JOBS, KEY) == written


async def test_whole_floats_come_back_as_integers(store: Store) -> None:
    await put(store, whole=2.0, large=1e23, largest=1e100, zero=-0.0)
    item = await store.get(JOBS, KEY)
    assert item is not None
    assert {name: (type(value), value) for name, value in item.attributes.items()} == {
        "whole": (int, 2),
        "large": (int, 10**23),
        "largest": (float, 1e100),
        "zero": (int, 0),
    }


async def test_what_was_read_is_nobody_elses(store: Store) -> None:
    mutable: list[Value] = [1]
    await put(store, entries=mutable)
    mutable.append(2)
    item = await store.get(JOBS, KEY)
    assert item is not None
    assert item.attributes["entries"] == [1]
    entries = item.attributes["entries"]
    assert isinstance(entries, list)
    entries.append(3)
    assert await store.get(JOBS, KEY) == Item(KEY, {"entries": [1]}, 1)


@pytest.mark.parametrize(
    "attributes",
    [
        {"pk": "x"},
        {"version": 3},
        {"expires_at": 1},
        {"": 1},
        {"nan": float("nan")},
        {"infinite": [float("inf")]},
        {"huge": 10**38},
        {"tiny": 1e-200},
        {"surrogate": "\ud800"},
        {"object": object()},
        {"set": {1, 2}},
        {"map": {1: "integer name"}},
        {"map": {"": "empty name"}},
    ],
)
async def test_what_cannot_be_stored_is_refused(store: Store, attributes: dict[str, Value]) -> None:
    with pytest.raises(InvalidItem):
        await store.write(Put(JOBS, KEY, attributes, Absent()))
    assert await store.get(JOBS, KEY) is None


async def test_nesting_has_a_limit(store: Store) -> None:
    value: Value = "bottom"
    for _ in range(40):
        value = [value]
    with pytest.raises(InvalidItem):
        await put(store, value=value)


def test_keys_have_a_length() -> None:
    for pk, sk in (("", "a"), ("a", ""), ("ä" * 1025, "a"), ("a", "ä" * 513), ("a", "\ud800")):
        with pytest.raises(InvalidItem):
            Key(pk, sk)


async def test_the_longest_keys_work(store: Store) -> None:
    key = Key("ä" * 1024, "ä" * 512)
    await put(store, key)
    assert await store.get(JOBS, key) == Item(key, {}, 1)


async def test_versions_count_writes(store: Store) -> None:
    await put(store, state="pending")
    updated = await store.write(Update(JOBS, KEY, set={"state": "running"}, condition=VersionIs(1)))
    assert (updated.version, updated.attributes) == (2, {"state": "running"})
    replaced = await store.write(Put(JOBS, KEY, {"a": 1}, VersionIs(2)))
    assert await store.get(JOBS, KEY) == replaced == Item(KEY, {"a": 1}, 3)
    kept = await store.write(Update(JOBS, KEY, set={"b": 2}, keep_version=True))
    assert await store.get(JOBS, KEY) == kept == Item(KEY, {"a": 1, "b": 2}, 3)


async def test_a_lost_race_tells_what_is_there(store: Store) -> None:
    await put(store, state="pending")
    write = Put(JOBS, KEY, {"state": "gone"}, VersionIs(7))
    with pytest.raises(ConditionFailed) as failed:
        await store.write(write)
    assert failed.value.write == write
    assert failed.value.current == Item(KEY, {"state": "pending"}, 1)
    assert "version is 7" in str(failed.value)
    with pytest.raises(ConditionFailed) as absent:
        await store.write(Update(JOBS, Key("acme/c1", "job#2"), set={"state": "gone"}, condition=VersionIs(1)))
    assert absent.value.current is None
    assert await store.get(JOBS, Key("acme/c1", "job#2")) is None


async def test_an_error_does_not_tell_values(store: Store) -> None:
    await put(store, password_hash="hunter2")
    with pytest.raises(ConditionFailed) as failed:
        await store.write(Update(JOBS, KEY, condition=Compare("password_hash", "==", "swordfish")))
    assert "hunter2" not in str(failed.value)
    assert "swordfish" not in str(failed.value)


async def test_a_put_says_what_it_replaces(store: Store) -> None:
    for condition in (Present(), Compare("a", "==", 1), Absent() | VersionIs(1)):
        with pytest.raises(InvalidItem):
            await store.write(Put(JOBS, KEY, {}, condition))
    await put(store, a=1, b=2)
    written = await store.write(Put(JOBS, KEY, {}, Compare("a", "==", 1) & Compare("b", "==", 2) & VersionIs(1)))
    assert written.version == 2


CONDITIONS: list[tuple[Condition, bool, bool]] = [
    # condition, holds for the item below, holds for an absent one
    (Absent(), False, True),
    (Present(), True, False),
    (VersionIs(1), True, False),
    (VersionIs(0), False, False),
    (Missing("fence"), False, True),
    (Missing("other"), True, True),
    (Compare("fence", "==", 5), True, False),
    (Compare("fence", "==", 5.0), True, False),
    (Compare("fence", "==", "5"), False, False),
    (Compare("fence", "!=", 5), False, False),
    (Compare("fence", "!=", 6), True, False),
    (Compare("fence", "!=", "5"), True, False),
    (Compare("other", "!=", 5), False, False),
    (Compare("fence", "<", 5), False, False),
    (Compare("fence", "<", 5.5), True, False),
    (Compare("fence", "<=", 5), True, False),
    (Compare("fence", ">", 4), True, False),
    (Compare("fence", ">=", 6), False, False),
    (Compare("fence", "<", "6"), False, False),
    (Compare("fence", ">", "4"), False, False),
    (Compare("other", "<", 5), False, False),
    (Compare("name", "<", "b"), True, False),
    (Compare("name", ">", "Z"), True, False),
    (Compare("name", "<", "ä"), True, False),
    (Compare("price", "==", 0.1), True, False),
    (Compare("flag", "==", True), True, False),
    (Compare("flag", "==", 1), False, False),
    (Compare("none", "==", None), True, False),
    (Compare("other", "==", None), False, False),
    (Compare("list", "==", [1, {"a": 2}]), True, False),
    (Compare("list", "==", [1, {"a": True}]), False, False),
    (Compare("map", "==", {"b": [], "a": 1.0}), True, False),
    (Compare("bytes", "<", b"\xff"), True, False),
    (at_most("fence", 5), True, True),
    (at_most("fence", 4), False, True),
    (VersionIs(1) & Compare("fence", "<", 6), True, False),
    (VersionIs(1) & Compare("fence", "<", 5), False, False),
    (VersionIs(2) | Compare("fence", "<", 6), True, False),
    ((Missing("fence") | Compare("fence", "<", 6)) & (Missing("name") | Compare("name", "==", "a")), True, True),
    (Missing("fence") & Present() | Compare("name", "==", "a") & Compare("fence", "!=", 6), True, False),
    (Compare("fence", "!=", 5) | Compare("name", "!=", "b"), True, False),
    (Absent() | (Compare("fence", "<", 6) & (VersionIs(1) | Missing("x"))), True, True),
]


async def test_conditions(store: Store) -> None:
    attributes: dict[str, Any] = {
        "fence": 5,
        "name": "a",
        "price": 0.1,
        "flag": True,
        "none": None,
        "list": [1, {"a": 2}],
        "map": {"a": 1, "b": []},
        "bytes": b"\x00",
    }

    async def held(condition: Condition, key: Key) -> bool:
        try:
            await store.write(Update(JOBS, key, set={"written": True}, condition=condition))
        except ConditionFailed:
            return False
        return True

    wrong: list[str] = []
    for number, (condition, on_item, on_absent) in enumerate(CONDITIONS):
        present, absent = Key("present", f"{number}"), Key("absent", f"{number}")
        await put(store, present, **attributes)
        for key, expected in ((present, on_item), (absent, on_absent)):
            if await held(condition, key) != expected:
                wrong.append(f"{condition} on {key.pk}")
            item = await store.get(JOBS, key)
            assert (item is not None and "written" in item.attributes) == expected
    assert wrong == []


@pytest.mark.parametrize("value", [True, None, [], {}])
def test_only_what_has_an_order_is_ordered(value: Value) -> None:
    with pytest.raises(InvalidItem):
        Compare("a", "<", value)


def test_the_stores_own_attributes_are_not_compared() -> None:
    for name in ("version", "pk", "sk", "expires_at"):
        with pytest.raises(InvalidItem):
            Compare(name, "==", 1)
        with pytest.raises(InvalidItem):
            Missing(name)
        with pytest.raises(InvalidItem):
            Update(JOBS, KEY, remove=(name,))


async def test_an_update_changes_what_it_names(store: Store) -> None:
    await put(store, keep="k", drop="d", count=1, log=["a"])
    item = await store.write(
        Update(
            JOBS,
            KEY,
            set={"new": {"x": 1}},
            add={"count": 2, "price": 0.1},
            append={"log": ["b", "c"], "tags": [1]},
            remove=("drop", "never there"),
        )
    )
    assert item == Item(
        KEY,
        {"keep": "k", "new": {"x": 1}, "count": 3, "price": 0.1, "log": ["a", "b", "c"], "tags": [1]},
        version=2,
    )
    assert await store.get(JOBS, KEY) == item


async def test_an_update_makes_what_is_absent(store: Store) -> None:
    item = await store.write(Update(JOBS, KEY, add={"count": 2}))
    assert await store.get(JOBS, KEY) == item == Item(KEY, {"count": 2}, 1)


async def test_sums_do_not_drift(store: Store) -> None:
    for _ in range(10):
        item = await store.write(Update(JOBS, KEY, add={"cost": 0.1}))
    assert item.attributes == {"cost": 1}


async def test_only_numbers_are_added_to(store: Store) -> None:
    await put(store, text="a", flag=True)
    for name in ("text", "flag"):
        with pytest.raises(StoreError):
            await store.write(Update(JOBS, KEY, add={name: 1}))
    assert await store.get(JOBS, KEY) == Item(KEY, {"text": "a", "flag": True}, 1)


@pytest.mark.parametrize("name", ["", "a.b", "a[0]"])
def test_a_condition_names_a_whole_attribute(name: str) -> None:
    with pytest.raises(InvalidItem):
        Compare(name, "==", 1)


def test_an_update_names_an_attribute_once() -> None:
    with pytest.raises(InvalidItem):
        Update(JOBS, KEY, set={"a": 1}, add={"a": 1})


async def test_delete(store: Store) -> None:
    await put(store, state="running")
    with pytest.raises(ConditionFailed):
        await store.delete(Delete(JOBS, KEY, Compare("state", "==", "done")))
    assert await store.get(JOBS, KEY) is not None
    await store.delete(Delete(JOBS, KEY, VersionIs(1)))
    assert await store.get(JOBS, KEY) is None
    await store.delete(Delete(JOBS, KEY))
    with pytest.raises(ConditionFailed):
        await store.delete(Delete(JOBS, KEY, Present()))


async def test_an_expired_item_is_absent_to_everything(store: Store, clock: Clock) -> None:
    for sk in ("a", "b", "c"):
        await put(store, Key("p", sk), expires_at=NOW + 10, state="s", since=sk)
    await put(store, Key("p", "kept"), expires_at=NOW + 11)
    assert len((await store.query(JOBS, "p")).items) == 4
    clock.now = NOW + 10
    assert await store.get(JOBS, Key("p", "a")) is None
    assert [item.key.sk for item in (await store.query(JOBS, "p")).items] == ["kept"]
    assert [item.key.sk for item in (await store.query(JOBS, "p", limit=1)).items] == ["kept"]
    with pytest.raises(ConditionFailed) as failed:
        await store.write(Update(JOBS, Key("p", "a"), set={"x": 1}, condition=VersionIs(1)))
    assert failed.value.current is None
    with pytest.raises(ConditionFailed):
        await store.delete(Delete(JOBS, Key("p", "a"), Present()))
    with pytest.raises(TransactionCancelled) as cancelled:
        await store.transact([Check(JOBS, Key("p", "a"), Present()), Put(JOBS, KEY, {}, Absent())], token="t")
    assert cancelled.value.reasons[0] is not None
    assert cancelled.value.reasons[0].current is None
    assert await store.get(JOBS, KEY) is None


async def test_an_expired_item_leaves_nothing_to_its_successor(store: Store, clock: Clock) -> None:
    for sk in ("put", "update", "delete", "transacted put", "transacted update"):
        await put(store, Key("p", sk), expires_at=NOW + 10, usage=100, old=True)
    clock.now = NOW + 20
    assert await put(store, Key("p", "put"), fresh=1) == Item(Key("p", "put"), {"fresh": 1}, 1)
    updated = await store.write(Update(JOBS, Key("p", "update"), add={"usage": 1}, condition=at_most("usage", 4)))
    assert updated == Item(Key("p", "update"), {"usage": 1}, 1)
    await store.delete(Delete(JOBS, Key("p", "delete")))
    await store.transact(
        [
            Put(JOBS, Key("p", "transacted put"), {"fresh": 2}, Absent(), expires_at=NOW + 30),
            Update(JOBS, Key("p", "transacted update"), add={"usage": 2}),
            Check(JOBS, Key("p", "delete"), Absent()),
        ],
        token="t",
    )
    assert (await store.query(JOBS, "p")).items == (
        Item(Key("p", "put"), {"fresh": 1}, 1),
        Item(Key("p", "transacted put"), {"fresh": 2}, 1, NOW + 30),
        Item(Key("p", "transacted update"), {"usage": 2}, 1),
        Item(Key("p", "update"), {"usage": 1}, 1),
    )


async def test_an_expiry_can_be_moved(store: Store, clock: Clock) -> None:
    await put(store, expires_at=NOW + 10)
    item = await store.write(Update(JOBS, KEY, set={"a": 1}))
    assert item.expires_at == NOW + 10
    item = await store.write(Update(JOBS, KEY, set={"a": 1}, expires_at=NOW + 50))
    clock.now = NOW + 20
    assert await store.get(JOBS, KEY) == item == Item(KEY, {"a": 1}, 3, NOW + 50)
    clock.now = NOW + 50
    assert await store.get(JOBS, KEY) is None


async def test_a_query_is_ordered_by_the_bytes_of_the_sort_key(store: Store) -> None:
    sort_keys = ["a", "a#1", "a#10", "a#2", "b", "Z", "ä", "🦀", "\uffff"]
    for sk in sort_keys:
        await put(store, Key("p", sk))
    await put(store, Key("other", "a"))
    ordered = sorted(sort_keys, key=str.encode)

    async def sks(**options: Prefix | Between | bool) -> list[str]:
        page = await store.query(JOBS, "p", **options)  # type: ignore[arg-type]
        assert page.cursor is None
        return [item.key.sk for item in page.items]

    assert await sks() == ordered
    assert await sks(descending=True) == ordered[::-1]
    assert await sks(sort=Prefix("a#")) == ["a#1", "a#10", "a#2"]
    assert await sks(sort=Prefix("a#"), descending=True) == ["a#2", "a#10", "a#1"]
    assert await sks(sort=Between("a#1", "b")) == ["a#1", "a#10", "a#2", "b"]
    assert await sks(sort=Between("c", "d")) == []
    assert (await store.query(JOBS, "nobody")).items == ()
    with pytest.raises(InvalidItem):
        await store.query(JOBS, "")


def test_ranges_are_not_empty() -> None:
    with pytest.raises(InvalidItem):
        Prefix("")
    with pytest.raises(InvalidItem):
        Between("b", "a")
    with pytest.raises(InvalidItem):
        Between("", "a")


@pytest.mark.parametrize("descending", [False, True])
async def test_a_query_reads_beyond_a_megabyte(store: Store, descending: bool) -> None:
    for n in range(12):
        await put(store, Key("p", f"{n:02}"), blob="x" * 150_000)
    page = await store.query(JOBS, "p", descending=descending)
    assert [int(item.key.sk) for item in page.items] == sorted(range(12), reverse=descending)
    assert page.cursor is None
    page = await store.query(JOBS, "p", descending=descending, limit=11)
    assert len(page.items) == 11
    assert page.cursor is not None


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("limit", [1, 3, 4, 12, 13])
async def test_pages_by_cursor_are_the_whole(store: Store, descending: bool, limit: int) -> None:
    for n in range(12):
        await put(store, Key("p", f"{n:02}"))
    await put(store, Key("p", "zz"))
    read: list[str] = []
    cursor = None
    pages = 0
    while True:
        page = await store.query(JOBS, "p", sort=Between("0", "y"), descending=descending, limit=limit, cursor=cursor)
        read += [item.key.sk for item in page.items]
        pages += 1
        cursor = page.cursor
        if cursor is None:
            break
    assert [int(sk) for sk in read] == sorted(range(12), reverse=descending)
    assert pages == -(-12 // limit)


async def test_a_page_goes_on_where_items_came_and_went(store: Store) -> None:
    for n in range(4):
        await put(store, Key("p", f"{n}"))
    first = await store.query(JOBS, "p", limit=2)
    await store.delete(Delete(JOBS, Key("p", "1")))
    await put(store, Key("p", "1x"))
    second = await store.query(JOBS, "p", limit=10, cursor=first.cursor)
    assert [item.key.sk for item in second.items] == ["1x", "2", "3"]


@pytest.mark.parametrize("cursor", ["%", "!!!!", "_w", "", "ä", "YWJj"])
async def test_a_made_up_cursor_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(InvalidCursor):
        await store.query(JOBS, "p", sort=Prefix("job#"), cursor=cursor)


async def test_an_index_finds_what_has_both_attributes(store: Store) -> None:
    for n, state in enumerate(["pending", "running", "pending"]):
        await put(store, Key(f"p{n}", "job"), state=state, since=f"2026-01-0{9 - n}")
    await put(store, Key("p3", "job"), state="pending")
    found = await store.query_index(JOBS, BY_STATE, "pending")
    assert found == [Key("p2", "job"), Key("p0", "job")]
    assert await store.query_index(JOBS, BY_STATE, "pending", limit=1) == [Key("p2", "job")]
    assert await store.query_index(JOBS, BY_STATE, "pending", sort=Between("2026", "2026-01-08")) == [Key("p2", "job")]
    await store.write(Update(JOBS, Key("p2", "job"), remove=("state", "since")))
    assert await store.query_index(JOBS, BY_STATE, "pending") == [Key("p0", "job")]


async def test_a_big_item_is_refused(store: Store) -> None:
    await put(store, blob="x" * 390_000)
    with pytest.raises(ItemTooLarge):
        await store.write(Put(JOBS, KEY, {"blob": "x" * 410_000}, VersionIs(1)))
    with pytest.raises(ItemTooLarge):
        await store.write(Update(JOBS, KEY, set={"more": b"x" * 30_000}))
    with pytest.raises(ItemTooLarge):
        await store.transact(
            [
                Put(JOBS, Key("p", "small"), {}, Absent()),
                Put(JOBS, Key("p", "big"), {"blob": "ä" * 210_000}, Absent()),
            ],
            token="t",
        )
    item = await store.get(JOBS, KEY)
    assert item is not None
    assert (item.version, list(item.attributes)) == (1, ["blob"])
    assert (await store.query(JOBS, "p")).items == ()


async def test_a_transaction_writes_all(store: Store) -> None:
    await put(store, Key("p", "old"))
    await put(store, Key("p", "checked"), state="ok")
    await store.transact(
        [
            Put(JOBS, Key("p", "new"), {"a": 1}, Absent()),
            Delete(JOBS, Key("p", "old"), VersionIs(1)),
            Update(QUOTAS, Key("acme", "cpus"), add={"usage": 4}, condition=at_most("usage", 6)),
            Check(JOBS, Key("p", "checked"), Compare("state", "==", "ok")),
        ],
        token="t",
    )
    assert [(item.key.sk, item.version) for item in (await store.query(JOBS, "p")).items] == [
        ("checked", 1),
        ("new", 1),
    ]
    assert await store.get(QUOTAS, Key("acme", "cpus")) == Item(Key("acme", "cpus"), {"usage": 4}, 1)


async def test_a_cancelled_transaction_leaves_nothing(store: Store) -> None:
    await put(store, Key("p", "there"))
    writes: list[Write] = [
        Put(JOBS, Key("p", "new"), {}, Absent()),
        Update(QUOTAS, Key("acme", "cpus"), add={"usage": 4}),
        Put(JOBS, Key("p", "there"), {"overwritten": True}, Absent()),
        Delete(JOBS, Key("p", "gone"), Present()),
    ]
    with pytest.raises(TransactionCancelled) as cancelled:
        await store.transact(writes, token="t")
    first, second, third, fourth = cancelled.value.reasons
    assert (first, second) == (None, None)
    assert third is not None
    assert third.write == writes[2]
    assert third.current == Item(Key("p", "there"), {}, 1)
    assert fourth is not None
    assert fourth.current is None
    assert (await store.query(JOBS, "p")).items == (Item(Key("p", "there"), {}, 1),)
    assert await store.get(QUOTAS, Key("acme", "cpus")) is None
    # The token of what was cancelled is still good.
    await store.transact(writes[:2], token="t")


async def test_a_repeated_transaction_happens_once(store: Store, clock: Clock) -> None:
    def writes() -> list[Put | Update]:
        return [
            Update(QUOTAS, Key("acme", "cpus"), add={"usage": 4}, condition=at_most("usage", 1)),
            Put(JOBS, KEY, {"at": clock.now}, Absent()),
        ]

    await store.transact(writes(), token="submit-1")
    clock.now += 3600
    await store.transact(writes(), token="submit-1")
    await asyncio.gather(*(store.transact(writes(), token="submit-1") for _ in range(4)))
    assert await store.get(QUOTAS, Key("acme", "cpus")) == Item(Key("acme", "cpus"), {"usage": 4}, 1)
    assert await store.get(JOBS, KEY) == Item(KEY, {"at": NOW}, 1)
    with pytest.raises(TransactionCancelled):
        await store.transact(writes(), token="submit-2")
    with pytest.raises(TokenReused):
        await store.transact([Update(QUOTAS, Key("umbrella", "cpus"), add={"usage": 4})], token="submit-1")
    assert await store.get(QUOTAS, Key("umbrella", "cpus")) is None


async def test_transactions_have_bounds(store: Store) -> None:
    with pytest.raises(InvalidItem):
        await store.transact([], token="t")
    with pytest.raises(InvalidItem):
        await store.transact([Put(JOBS, KEY, {}, Absent()), Delete(JOBS, KEY)], token="t")
    with pytest.raises(InvalidItem):
        await store.transact([Put(JOBS, Key("p", f"{n}"), {}, Absent()) for n in range(100)], token="t")
    await store.transact([Put(JOBS, Key("p", f"{n}"), {}, Absent()) for n in range(99)], token="t")
    assert len((await store.query(JOBS, "p")).items) == 99


async def test_sixteen_at_once_fit_ten_into_a_quota_of_ten(store: Store) -> None:
    async def take() -> bool:
        try:
            await store.write(Update(QUOTAS, Key("acme", "jobs"), add={"usage": 1}, condition=at_most("usage", 9)))
        except ConditionFailed:
            return False
        return True

    assert sum(await asyncio.gather(*(take() for _ in range(16)))) == 10
    assert await store.get(QUOTAS, Key("acme", "jobs")) == Item(Key("acme", "jobs"), {"usage": 10}, 10)


async def test_sixteen_transactions_at_once_fit_ten_into_a_quota_of_ten(store: Store) -> None:
    async def submit(number: int) -> bool:
        try:
            await store.transact(
                [
                    Update(QUOTAS, Key("acme", "jobs"), add={"usage": 1}, condition=at_most("usage", 9)),
                    Put(JOBS, Key("acme", f"{number}"), {}, Absent()),
                ],
                token=f"submit-{number}",
            )
        except TransactionCancelled:
            return False
        return True

    assert sum(await asyncio.gather(*(submit(n) for n in range(16)))) == 10
    assert await store.get(QUOTAS, Key("acme", "jobs")) == Item(Key("acme", "jobs"), {"usage": 10}, 10)
    assert len((await store.query(JOBS, "acme")).items) == 10


async def test_one_of_sixteen_wins_a_version(store: Store) -> None:
    await put(store, winner=-1)

    async def replace(number: int) -> int | None:
        try:
            await store.write(Put(JOBS, KEY, {"winner": number}, VersionIs(1)))
        except ConditionFailed:
            return None
        return number

    winners = [number for number in await asyncio.gather(*(replace(n) for n in range(16))) if number is not None]
    assert len(winners) == 1
    assert await store.get(JOBS, KEY) == Item(KEY, {"winner": winners[0]}, 2)


async def test_tables_are_made_once(store: Store) -> None:
    await put(store)
    await store.create_tables(JOBS, QUOTAS)
    assert await store.get(JOBS, KEY) is not None
    with pytest.raises(TableMissing):
        await store.get(Table("nowhere"), KEY)
    with pytest.raises(TableMissing):
        await store.write(Put(Table("nowhere"), KEY, {}, Absent()))
    await asyncio.gather(*(store.create_tables(Table("another")) for _ in range(3)))
    await store.write(Put(Table("another"), KEY, {}, Absent()))
