"""Browsing of the shared folder: what the edge is asked for, and what becomes of its errors."""

import pytest
from clusterra_contracts.rpc.reply import ErrorKind
from clusterra_gateway.files.folders import checked_path
from clusterra_gateway.http.requests.errors import InvalidRequest
from gateway_world import World
from hypothesis import given
from hypothesis import strategies as st

FOLDERS = "/v1/clusters/main/folders"


async def test_the_edge_looks_as_the_caller_and_as_nobody_else(world: World) -> None:
    ada, bob = await world.login("ada@acme.example"), await world.login("bob@acme.example")

    for browser, path in ((ada, "run1/"), (bob, "")):
        async with browser.get(FOLDERS, params={"path": path, "limit": "7", "cursor": "61"}) as answer:
            assert answer.status == 200, await answer.text()

    first, second = world.acme.edge.listings
    assert (first.path, first.limit, first.after) == ("run1", 7, "61")
    assert first.user.uid != second.user.uid
    assert min(first.user.uid, second.user.uid) >= 1000


@pytest.mark.parametrize(
    ("kind", "status"),
    [("not_found", 404), ("forbidden", 404), ("rejected", 404), ("conflict", 409), ("unavailable", 503)],
)
async def test_what_the_user_may_not_see_is_as_what_does_not_exist(world: World, kind: ErrorKind, status: int) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.edge.folder_error = kind

    async with browser.get(FOLDERS, params={"path": "private"}) as answer:
        body = await answer.json()

    assert answer.status == status
    if status == 404:
        assert "opened nothing" not in body["detail"]


@pytest.mark.parametrize("path", ["..", "a/../b", "/etc", "a//b", ".", "a/.", "a\0b", "/".join("a" * 65)])
async def test_a_path_that_leads_elsewhere_does_not_reach_the_edge(world: World, path: str) -> None:
    browser = await world.login("ada@acme.example")

    for url in (FOLDERS, f"{FOLDERS}/content"):
        async with browser.get(url, params={"path": path}) as answer:
            assert answer.status == 400, await answer.text()

    assert world.acme.edge.listings == []
    assert world.acme.edge.file_reads == []


async def test_a_file_is_read_as_the_caller_whole_or_by_a_range(world: World) -> None:
    ada = await world.login("ada@acme.example")
    found = []

    for headers in ({}, {"Range": "bytes=1-3"}):
        async with ada.get(f"{FOLDERS}/content", params={"path": "run1/log"}, headers=headers) as answer:
            found.append((answer.status, answer.headers.get("Content-Range"), await answer.read()))

    assert found == [(200, None, b"shared\n"), (206, "bytes 1-3/7", b"har")]
    assert {read.path for read in world.acme.edge.file_reads} == {"run1/log"}
    assert {read.user.uid for read in world.acme.edge.file_reads} == {20001}


@given(st.text(st.sampled_from("./a \u00fc\0\\"), max_size=20))
def test_every_checked_path_stays_below_the_folder(text: str) -> None:
    try:
        path = checked_path(text)
    except InvalidRequest:
        return

    assert not path.startswith("/")
    assert all(name not in ("", ".", "..") and "\0" not in name for name in (path.split("/") if path else []))
