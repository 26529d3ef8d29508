"""The API page works without the internet, and loads nothing but the gateway's own files."""

import gzip
import json
import re

import pytest
from clusterra_gateway.http.routes.openapi import document
from gateway_world import World
from route_table import route_table

PAGE = "/v1/docs"


@pytest.mark.parametrize("path", ["/nonsense", "/docs", "/v2/jobs"])
async def test_a_path_that_does_not_exist_leads_to_the_page(world: World, path: str) -> None:
    stranger = await world.browser()

    async with stranger.get(path) as answer:
        problem = await answer.json()

    assert (answer.status, problem["type"]) == (404, "about:blank")
    assert "/v1/docs" in problem["hint"]


async def test_all_that_the_page_loads_comes_from_the_gateway(world: World) -> None:
    stranger = await world.browser()

    async with stranger.get(PAGE) as answer:
        page = await answer.text()
        policy = answer.headers["Content-Security-Policy"]

    assert answer.status == 200
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "http" not in policy
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert f"{PAGE}/swagger-ui-bundle.js" in loaded
    for path in loaded:
        if path != "data:,":
            async with stranger.get(path) as file:
                assert (file.status, path.startswith("/v1/")) == (200, True)


async def test_other_answers_keep_the_policy_that_loads_nothing(world: World) -> None:
    stranger = await world.browser()

    for path in ("/v1/openapi.json", f"{PAGE}/start.js"):
        async with stranger.get(path) as answer:
            assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; frame-ancestors")


@pytest.mark.parametrize("name", ["start.js", "swagger-ui.css", "swagger-ui-bundle.js"])
async def test_a_file_is_sent_compressed_and_once(world: World, name: str) -> None:
    stranger = await world.browser()

    async with stranger.get(f"{PAGE}/{name}", headers={"Accept-Encoding": "identity"}) as answer:
        plain, etag = await answer.read(), answer.headers["ETag"]
    async with stranger.get(f"{PAGE}/{name}", headers={"Accept-Encoding": "gzip"}, auto_decompress=False) as answer:
        compressed = await answer.read()
    async with stranger.get(f"{PAGE}/{name}", headers={"If-None-Match": etag}) as again:
        assert (again.status, await again.read()) == (304, b"")

    assert gzip.decompress(compressed) == plain
    assert len(plain) > 100


@pytest.mark.parametrize("name", ["index.html", "swagger-editor.js", "..%2Froutes.py", "%2e%2e"])
async def test_nothing_else_of_the_package_is_served(world: World, name: str) -> None:
    stranger = await world.browser()

    async with stranger.get(f"{PAGE}/{name}") as answer:
        assert answer.status == 404


def test_each_operation_has_a_group_and_a_summary() -> None:
    operations = [each for item in json.loads(document(route_table()))["paths"].values() for each in item.values()]

    assert {"jobs", "people", "files", "events"} <= {tag for each in operations for tag in each["tags"]}
    for each in operations:
        assert 3 < len(each["summary"]) <= 120, each["operationId"]
        assert each["description"].startswith(each["summary"][:10])
