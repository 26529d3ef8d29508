"""The OpenAPI document, the list of routes and the router agree with the table of routes."""

import re
from typing import Any

import jsonschema
from clusterra_gateway.http.openapi import document
from clusterra_gateway.http.server import application
from gateway_world import World
from route_table import route_table


def routes_of_router() -> set[tuple[str, str]]:
    app = application(route_table())
    return {(route.method, str(route.resource.canonical)) for route in app.router.routes() if route.resource}


def test_the_router_has_exactly_the_routes_of_the_table() -> None:
    heads = {("HEAD", route.path) for route in route_table() if route.has_head}

    aliases = {(route.method, alias) for route in route_table() for alias in route.aliases}

    assert routes_of_router() == heads | aliases | {(route.method, route.path) for route in route_table()}

    names = [route.name for route in route_table()]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in names)


def test_the_document_has_exactly_the_routes_of_the_router() -> None:
    paths = document(route_table())["paths"]

    documented = {(method.upper(), path) for path, item in paths.items() for method in item}

    aliases = {(route.method, alias) for route in route_table() for alias in route.aliases}
    assert documented == {(method, path) for method, path in routes_of_router() if method != "HEAD"} - aliases

    for item in paths.values():
        for operation in item.values():
            assert operation["description"]


async def test_document_and_list_are_public(world: World) -> None:
    stranger = await world.browser()

    async with stranger.get("/v1/openapi.json") as answer:
        served: dict[str, Any] = await answer.json()

    assert served == document(route_table())

    async with stranger.get("/v1/api-routes") as answer:
        routes = (await answer.json())["routes"]

    assert [(each["name"], each["method"], each["path"], each["stream"]) for each in routes] == [
        (route.name, route.method, route.path, route.stream) for route in route_table()
    ]


def test_every_reference_in_the_document_can_be_resolved() -> None:
    whole = document(route_table())

    references = set(re.findall(r'"(#/components/schemas/[^"]+)"', str(whole).replace("'", '"')))

    assert references
    for reference in references:
        assert reference.rpartition("/")[2] in whole["components"]["schemas"], reference

    for schema in whole["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
