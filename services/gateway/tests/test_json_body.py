"""A body of garbage is refused before the models collect an error for each of its values."""

from io import BytesIO
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from clusterra_contracts.bus.envelope import has_more_values
from clusterra_gateway.http.answers.problems import STATUS
from clusterra_gateway.http.requests.errors import InvalidRequest, RequestError, TooLarge
from clusterra_gateway.http.requests.json_body import (
    MAX_BODY_BYTES,
    SMALL,
    BodyBounds,
    location_of_nul,
)
from clusterra_gateway.http.requests.parameters import body
from clusterra_gateway.submission.models import Submission
from clusterra_gateway.submission.reading import BOUNDS
from hypothesis import given
from hypothesis import strategies as st

ITEMS = (MAX_BODY_BYTES - 100) // 3
GARBAGE = {
    "numbers": b'{"script":"x","job":{"environment":[' + b"11," * ITEMS + b"1]}}",
    "objects": b'{"script":"x","job":{"environment":[' + b"{}," * ITEMS + b"1]}}",
    "unknown fields": b'{"script":"x","job":{' + b",".join(b'"%07d":1' % each for each in range(ITEMS // 4)) + b"}}",
}
JSON = st.recursive(st.integers(), lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner))


async def answer(content: bytes, bounds: BodyBounds, *, streamed: bool = False) -> tuple[int, str]:
    """The status and the text of reading a submission."""

    async def read(request: web.Request) -> web.Response:
        try:
            await body(request, Submission, bounds=bounds)
        except RequestError as error:
            return web.Response(status=STATUS[type(error)], text=error.detail)
        return web.Response()

    app = web.Application()
    app.router.add_post("/", read)
    async with TestClient(TestServer(app)) as client:

        async def pieces() -> Any:
            yield content

        data = pieces() if streamed else BytesIO(content)
        async with client.post("/", data=data, headers={"Content-Type": "application/json"}) as response:
            return response.status, await response.text()


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_is_refused_before_the_model(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def validated(*_: object) -> None:
        raise AssertionError("the model was asked")

    monkeypatch.setattr(Submission, "model_validate_json", validated)

    status, text = await answer(content, BOUNDS)

    assert (status, text) == (STATUS[InvalidRequest], "the body has more than 10000 values")


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_body_is_no_larger_than_its_route_allows(streamed: bool) -> None:
    status, text = await answer(b" " * (SMALL.bytes + 1), SMALL, streamed=streamed)

    assert (status, text) == (STATUS[TooLarge], "the body is larger than this request allows")


async def test_what_is_no_json_is_explained_by_the_model() -> None:
    status, text = await answer(b'{"script": ', BOUNDS)

    assert status == STATUS[InvalidRequest]
    assert "is no valid JSON: see line 1, column 11" in text


@given(JSON, st.integers(0, 20))
def test_values_are_counted_at_every_depth(content: Any, most: int) -> None:
    def count(each: Any) -> int:
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        return sum(1 + count(value) for value in inner)

    assert has_more_values(content, most) == (count(content) > most)


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (rb'{"script":"a","job":{"name":"a\u0000b"}}', "job.name"),
        (rb'{"script":"a","job":{"environment":["A=1","B=\u0000"]}}', "job.environment.1"),
        (rb'{"script":"\u0000","job":{}}', "script"),
        (rb'{"script":"a","job":{"a\u0000":1}}', "job"),
        (rb'"\u0000"', "the body"),
    ],
)
async def test_a_nul_character_is_refused_with_its_place(content: bytes, place: str) -> None:
    status, text = await answer(content, BOUNDS)

    assert (status, text) == (STATUS[InvalidRequest], f"{place} has a NUL character")


def test_an_escaped_backslash_before_u0000_is_no_nul() -> None:
    assert location_of_nul({"script": "\\u0000"}) is None


@given(JSON, st.sampled_from(["\0", "a\0b"]))
def test_a_nul_is_found_wherever_it_is(value: Any, text: str) -> None:
    assert location_of_nul([value, {"a": text}]) in {(1, "a"), location_of_nul([value])}
