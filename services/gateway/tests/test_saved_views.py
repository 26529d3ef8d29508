"""Saved views: each person's own, under names that may be anything, and bounded."""

import asyncio
from string import printable
from urllib.parse import quote

import pytest
from clusterra_contracts.identity import now
from clusterra_gateway.accounts.keyspace import ACCOUNTS, saved_views_key
from clusterra_gateway.http.requests.errors import Conflict
from clusterra_gateway.people import saved_views
from clusterra_gateway.people.saved_view_handlers import VIEW_NAME
from clusterra_gateway.people.saved_views import SavedView, SavedViews
from clusterra_gateway.tables import TABLES
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.store import Update
from clusterra_runtime.store.table_use import tables_of
from gateway_world import World
from hypothesis import given
from hypothesis import strategies as st
from people_world import me
from yarl import URL

VIEWS = "/v1/users/me/views"
MINE = {"page": "jobs", "query": "state=FAILED&sort=-ended"}


def path(name: str) -> URL:
    return URL(f"{VIEWS}/{quote(name, safe='')}", encoded=True)


@pytest.mark.parametrize("name", ["mine", "failed, this week", "é \u202e <b>", "a?b#c%2F&d", "x" * 60, "名前"])
async def test_a_view_is_saved_listed_replaced_and_deleted(world: World, name: str) -> None:
    ada, bob = [await world.login(f"{who}@acme.example") for who in ("ada", "bob")]

    async with ada.put(path(name), json=MINE) as answer:
        assert answer.status == 200, await answer.text()
        saved = await answer.json()
    async with ada.put(path(name), json=MINE | {"query": ""}) as answer:
        replaced = await answer.json()
    async with ada.get(VIEWS) as answer:
        listed = await answer.json()
    async with bob.get(VIEWS) as answer:
        assert await answer.json() == {"views": [], "total": 0}
    statuses = [(await browser.delete(path(name))).status for browser in (bob, ada, ada)]

    assert {**saved, "saved_at": ""} == {**MINE, "name": name, "saved_at": ""}
    assert listed == {"views": [replaced], "total": 1}
    assert statuses == [404, 204, 404]


@pytest.mark.parametrize(
    "wrong",
    [
        {"page": "admin", "query": ""},
        {"page": "jobs", "query": "x" * 2001},
        {"page": "jobs", "query": "a\nb"},
        {"page": "jobs", "query": "\u202e"},
        {"page": "jobs"},
        MINE | {"more": 1},
    ],
)
async def test_a_wrong_view_is_not_saved(world: World, wrong: dict[str, object]) -> None:
    ada = await world.login("ada@acme.example")

    assert (await ada.put(path("mine"), json=wrong)).status == 400


@pytest.mark.parametrize("name", ["x" * 61, "a\nb", ".hidden", "a/b"])
async def test_a_wrong_name_names_nothing(world: World, name: str) -> None:
    ada = await world.login("ada@acme.example")

    assert (await ada.put(path(name), json=MINE)).status == 404
    assert VIEW_NAME.chosen


async def test_a_view_that_cannot_be_read_hides_no_other(world: World) -> None:
    ada = await world.login("ada@acme.example")
    await ada.put(path("mine"), json=MINE)
    key = saved_views_key((await me(ada))["id"])
    item = await world.store.get(ACCOUNTS, key)
    assert item is not None
    views = item.attributes["views"]
    assert isinstance(views, dict)
    await world.store.write(Update(ACCOUNTS, key, set={"views": {**views, "broken": {"page": 1}}}))

    async with ada.get(VIEWS) as answer:
        assert [each["name"] for each in (await answer.json())["views"]] == ["mine"]
    await ada.put(path("other"), json=MINE)
    assert (await ada.delete(path("broken"))).status == 204


async def test_views_that_are_saved_at_the_same_time_are_all_kept_up_to_the_bound(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_views, "MAX_VIEWS", 3)
    ada = await world.login("ada@acme.example")

    answers = await asyncio.gather(*(ada.put(path(name), json=MINE) for name in "abc"))
    full = (await ada.put(path("d"), json=MINE)).status
    again = (await ada.put(path("a"), json=MINE)).status

    assert [each.status for each in answers] == [200] * 3
    assert (full, again) == (409, 200)


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | st.text(printable, max_size=5)), min_size=1, max_size=30)
)
async def test_whatever_is_saved_and_deleted_the_last_of_each_name_is_there(
    changes: list[tuple[str, str | None]],
) -> None:
    async with MemoryStore() as store:
        await store.create_tables(*tables_of(TABLES))
        views, expected = SavedViews(store), dict[str, str]()
        for name, query in changes:
            if query is not None:
                await views.save("m1", name, SavedView(page="jobs", query=query, saved_at=now()))
                expected[name] = query
            elif expected.pop(name, None) is not None:
                await views.delete("m1", name)

        assert {name: view.query for name, view in (await views.all("m1")).items()} == expected
        assert await views.all("m2") == {}


async def test_the_longest_views_fit_into_the_record() -> None:
    async with MemoryStore() as store:
        await store.create_tables(*tables_of(TABLES))
        views = SavedViews(store)
        for number in range(saved_views.MAX_VIEWS):
            long = SavedView(page="workflows", query="~" * 2000, saved_at=now())
            await views.save("m1", chr(0x10FF00 + number) * 60, long)

        assert len(await views.all("m1")) == saved_views.MAX_VIEWS
        with pytest.raises(Conflict):
            await views.save("m1", "one more", long)
