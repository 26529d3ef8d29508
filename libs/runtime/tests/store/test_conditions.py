"""Conditions of writes, on present and on absent items."""

from typing import Any

import pytest
from clusterra_runtime.store.condition import Absent, Condition, Missing, Present, VersionIs, at_most, compare
from clusterra_runtime.store.item import InvalidItem, Item, Key, Value
from clusterra_runtime.store.store import ConditionFailed, Put, Store, Update

from .conftest import JOBS, KEY, put


async def test_a_failed_condition_reports_the_current_item(store: Store) -> None:
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


async def test_a_condition_error_contains_no_values(store: Store) -> None:
    await put(store, password_hash="hunter2")
    with pytest.raises(ConditionFailed) as failed:
        await store.write(Update(JOBS, KEY, condition=compare("password_hash", "==", "swordfish")))
    assert "hunter2" not in str(failed.value)
    assert "swordfish" not in str(failed.value)


async def test_a_put_must_say_what_it_replaces(store: Store) -> None:
    for condition in (Present(), compare("a", "==", 1), Absent() | VersionIs(1)):
        with pytest.raises(InvalidItem):
            await store.write(Put(JOBS, KEY, {}, condition))
    await put(store, a=1, b=2)
    written = await store.write(Put(JOBS, KEY, {}, compare("a", "==", 1) & compare("b", "==", 2) & VersionIs(1)))
    assert written.version == 2


CONDITIONS: list[tuple[Condition, bool, bool]] = [
    # condition, holds for the item below, holds for an absent one
    (Absent(), False, True),
    (Present(), True, False),
    (VersionIs(1), True, False),
    (VersionIs(0), False, False),
    (Missing("fence"), False, True),
    (Missing("other"), True, True),
    (compare("fence", "==", 5), True, False),
    (compare("fence", "==", 5.0), True, False),
    (compare("fence", "==", "5"), False, False),
    (compare("fence", "!=", 5), False, False),
    (compare("fence", "!=", 6), True, False),
    (compare("fence", "!=", "5"), True, False),
    (compare("other", "!=", 5), False, False),
    (compare("fence", "<", 5), False, False),
    (compare("fence", "<", 5.5), True, False),
    (compare("fence", "<=", 5), True, False),
    (compare("fence", ">", 4), True, False),
    (compare("fence", ">=", 6), False, False),
    (compare("fence", "<", "6"), False, False),
    (compare("fence", ">", "4"), False, False),
    (compare("other", "<", 5), False, False),
    (compare("name", "<", "b"), True, False),
    (compare("name", ">", "Z"), True, False),
    (compare("name", "<", "ä"), True, False),
    (compare("price", "==", 0.1), True, False),
    (compare("flag", "==", True), True, False),
    (compare("flag", "==", 1), False, False),
    (compare("none", "==", None), True, False),
    (compare("other", "==", None), False, False),
    (compare("list", "==", [1, {"a": 2}]), True, False),
    (compare("list", "==", [1, {"a": True}]), False, False),
    (compare("map", "==", {"b": [], "a": 1.0}), True, False),
    (compare("bytes", "<", b"\xff"), True, False),
    (at_most("fence", 5), True, True),
    (at_most("fence", 4), False, True),
    (VersionIs(1) & compare("fence", "<", 6), True, False),
    (VersionIs(1) & compare("fence", "<", 5), False, False),
    (VersionIs(2) | compare("fence", "<", 6), True, False),
    ((Missing("fence") | compare("fence", "<", 6)) & (Missing("name") | compare("name", "==", "a")), True, True),
    (Missing("fence") & Present() | compare("name", "==", "a") & compare("fence", "!=", 6), True, False),
    (compare("fence", "!=", 5) | compare("name", "!=", "b"), True, False),
    (Absent() | (compare("fence", "<", 6) & (VersionIs(1) | Missing("x"))), True, True),
]


async def test_conditions_hold_as_declared(store: Store) -> None:
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
def test_only_numbers_strings_and_bytes_can_be_ordered(value: Value) -> None:
    with pytest.raises(InvalidItem):
        compare("a", "<", value)


def test_the_stores_own_attributes_cannot_be_used() -> None:
    for name in ("version", "pk", "sk", "expires_at"):
        with pytest.raises(InvalidItem):
            compare(name, "==", 1)
        with pytest.raises(InvalidItem):
            Missing(name)
        with pytest.raises(InvalidItem):
            Update(JOBS, KEY, remove=(name,))


@pytest.mark.parametrize("name", ["", "a.b", "a[0]"])
def test_a_condition_cannot_name_a_path(name: str) -> None:
    with pytest.raises(InvalidItem):
        compare(name, "==", 1)
