"""How answers are sent: unchanged ones, compressed ones, HEAD, headers for browsers, and problems by field."""

import gzip

import aiohttp
import pytest
from aiohttp import web
from clusterra_gateway.http.answers.problems import TYPES
from clusterra_gateway.http.requests.errors import RequestError
from gateway_world import World

SUBMIT = "/v1/clusters/main/jobs/submit"


async def test_an_unchanged_answer_is_not_sent_again(world: World) -> None:
    browser = await world.login("ada@acme.example")
    async with browser.get("/v1/users/me") as answer:
        etag, body = answer.headers["ETag"], await answer.read()
    async with browser.get("/v1/users/me", headers={"If-None-Match": etag}) as answer:
        assert (answer.status, await answer.read()) == (304, b"")
        assert answer.headers["ETag"] == etag
    async with browser.get("/v1/users/me", headers={"If-None-Match": 'W/"of another answer"'}) as answer:
        assert (answer.status, await answer.read()) == (200, body)


async def test_head_has_the_headers_of_get_and_no_body(world: World) -> None:
    browser = await world.login("ada@acme.example")
    async with browser.get("/v1/users/me") as answer:
        etag = answer.headers["ETag"]
    async with browser.head("/v1/users/me") as answer:
        assert (answer.status, answer.headers["ETag"], await answer.read()) == (200, etag, b"")
    async with browser.head("/v1/auth/callback", allow_redirects=False) as answer:
        assert answer.status == 405, "it has an effect"


async def test_a_long_answer_is_compressed_for_those_who_read_that(world: World) -> None:
    async with aiohttp.ClientSession(world.url, auto_decompress=False) as http:
        async with http.get("/v1/openapi.json", headers={"Accept-Encoding": "identity"}) as answer:
            plain = await answer.read()
            assert "Content-Encoding" not in answer.headers
        async with http.get("/v1/openapi.json", headers={"Accept-Encoding": "gzip"}) as answer:
            assert (answer.headers["Content-Encoding"], answer.headers["Vary"]) == ("gzip", "Accept-Encoding")
            short = await answer.read()

    assert gzip.decompress(short) == plain
    assert len(short) < len(plain) / 4


async def test_the_document_of_the_api_is_compressed_once_for_all(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    compressed: list[web.Response] = []
    async with aiohttp.ClientSession(world.url) as http:
        async with http.get("/v1/openapi.json", headers={"Accept-Encoding": "identity"}) as answer:
            plain, vary = answer.headers["ETag"], answer.headers["Vary"]
        monkeypatch.setattr(web.Response, "enable_compression", lambda response, *_args: compressed.append(response))
        async with http.get("/v1/openapi.json") as answer:
            etag, told = answer.headers["ETag"], await answer.json()
        async with http.get("/v1/openapi.json", headers={"If-None-Match": etag}) as answer:
            assert answer.status == 304

    assert (plain, vary) == (etag, "Accept-Encoding")
    assert told["openapi"] == "3.1.0"
    assert [each for each in compressed if each.content_type == "application/json"] == []


async def test_no_answer_can_become_a_page(world: World) -> None:
    policy = "default-src 'none'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'"
    async with aiohttp.ClientSession(world.url) as http:
        for path in ("/v1/openapi.json", "/v1/users/me", "/nowhere"):
            async with http.get(path) as answer:
                assert answer.headers["Content-Security-Policy"] == policy
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert answer.headers["Referrer-Policy"] == "no-referrer"
                assert "Strict-Transport-Security" not in answer.headers, "this gateway is reached over HTTP"


async def test_a_problem_names_each_wrong_field(world: World) -> None:
    browser = await world.login("ada@acme.example")
    body = {"script": "x", "job": {"environment": ["a/b~c"], "nodes": 1, "of/f~ice": True}}
    async with browser.post(SUBMIT, json=body) as answer:
        problem = await answer.json()
    assert {each["pointer"] for each in problem["errors"]} == {"#/job/nodes", "#/job/of~1f~0ice"}
    assert problem["instance"] == f"urn:clusterra:request:{answer.headers['X-Request-Id']}"

    async with browser.get("/v1/clusters/main/jobs?limit=many") as answer:
        problem = await answer.json()
    assert [each["parameter"] for each in problem["errors"]] == ["limit"]


async def test_each_type_of_problem_is_described_at_its_address(world: World) -> None:
    async with aiohttp.ClientSession(world.url) as http:
        async with http.get(TYPES) as answer:
            types = (await answer.json())["types"]
        for each in types:
            async with http.get(each["type"]) as answer:
                assert await answer.json() == each
                assert each["description"]
        async with http.get("/v1/users/me") as answer:
            problem = await answer.json()
        async with http.get(f"{TYPES}/none") as answer:
            assert answer.status == 404

    errors = [kind for direct in RequestError.__subclasses__() for kind in (direct, *direct.__subclasses__())]
    assert len(types) == len(errors) + 1
    assert problem["type"] in {each["type"] for each in types}
