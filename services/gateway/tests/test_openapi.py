"""The OpenAPI document, the list of routes and the router agree with the table of routes."""

import json
import re
from typing import Any

import jsonschema
from clusterra_gateway.http.routes.openapi import document
from clusterra_gateway.http.routes.route import Route
from clusterra_gateway.http.server.server import application
from files_world import FilesWorld
from gateway_world import World
from route_table import route_table

WEBHOOK = {"name": "ci", "url": "https://hooks.example/in"}


def routes_of_router() -> set[tuple[str, str]]:
    app = application(route_table())
    return {(route.method, str(route.resource.canonical)) for route in app.router.routes() if route.resource}


def aliases_of(route: Route) -> list[str]:
    """The aliases as the router names them: without the syntax of their parameters."""
    return [re.sub(r"\{(\w+):[^}]*\}", r"{\1}", alias) for alias in route.aliases]


def test_the_router_has_exactly_the_routes_of_the_table() -> None:
    heads = {("HEAD", path) for route in route_table() if route.has_head for path in (route.path, *aliases_of(route))}

    aliases = {(route.method, alias) for route in route_table() for alias in aliases_of(route)}

    assert routes_of_router() == heads | aliases | {(route.method, route.path) for route in route_table()}

    names = [route.name for route in route_table()]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in names)


def test_the_document_has_exactly_the_routes_of_the_router() -> None:
    paths = json.loads(document(route_table()))["paths"]

    documented = {(method.upper(), path) for path, item in paths.items() for method in item}

    aliases = {(route.method, alias) for route in route_table() for alias in aliases_of(route)}
    assert documented == {(method, path) for method, path in routes_of_router() if method != "HEAD"} - aliases

    for item in paths.values():
        for operation in item.values():
            assert operation["description"]


def test_gateways_of_a_process_share_one_document() -> None:
    of_another_gateway = route_table.__wrapped__()

    assert document(of_another_gateway) is document(route_table())


def test_every_bound_in_the_document_is_one_of_json_schema() -> None:
    def names(part: Any) -> set[str]:
        match part:
            case dict():
                return set(part).union(*map(names, part.values()))
            case list():
                return set[str]().union(*map(names, part))
        return set()

    # A validator before a `Field` makes pydantic write the bound as it stands.
    assert names(json.loads(document(route_table()))) & {"ge", "gt", "le", "lt"} == set()


async def test_document_and_list_are_public(world: World) -> None:
    stranger = await world.browser()

    async with stranger.get("/v1/openapi.json") as answer:
        served: dict[str, Any] = await answer.json()

    assert served == json.loads(document(route_table()))

    async with stranger.get("/v1/api-routes") as answer:
        routes = (await answer.json())["routes"]

    assert [(each["name"], each["method"], each["path"], each["stream"]) for each in routes] == [
        (route.name, route.method, route.path, route.stream) for route in route_table()
    ]


def test_every_reference_in_the_document_can_be_resolved() -> None:
    whole = json.loads(document(route_table()))

    references = set(re.findall(r'"(#/components/schemas/[^"]+)"', str(whole).replace("'", '"')))

    assert references
    for reference in references:
        assert reference.rpartition("/")[2] in whole["components"]["schemas"], reference

    for schema in whole["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_link_leads_to_an_operation_and_gives_its_parameters() -> None:
    operations = {
        each["operationId"]: (path, each)
        for path, item in json.loads(document(route_table()))["paths"].items()
        for each in item.values()
    }

    walked = 0
    for path, operation in operations.values():
        for response in operation["responses"].values():
            for link in response.get("links", {}).values():
                target, linked = operations[link["operationId"]]
                taken = {f"path.{each['name']}" for each in linked["parameters"] if each["in"] == "path"}
                asked = {name.removeprefix("$request.path.") for name in link["parameters"].values()}
                assert taken >= link["parameters"].keys(), (path, target)
                assert all(f"{{{name}}}" in path for name in asked if not name.startswith("$")), (path, target)
                walked += 1

    assert walked > 50


async def test_the_links_of_lists_lead_to_what_they_list(files: FilesWorld) -> None:
    world = files.world
    reads = {path: item["get"] for path, item in json.loads(document(route_table()))["paths"].items() if "get" in item}
    path_of = {operation["operationId"]: path for path, operation in reads.items()}
    given = {"cluster_id": "main", "name": "ci"}
    world.acme.add_job("7")
    world.acme.scripts["7"] = "#!/bin/sh\ntrue\n"
    world.acme.edge.write_output("7", b"hello\n")
    boss = await world.login("boss@acme.example")
    for made, content in (
        ("/v1/users/me/tokens", {"name": "ci"}),
        ("/v1/service-accounts", {"name": "ci"}),
        ("/v1/service-accounts/ci/keys", {"name": "runner"}),
        ("/v1/invitations", {"email": "ada@acme.example"}),
        (
            "/v1/schedules",
            {"name": "nightly", "template_id": "shell", "params": {"commands": "true"}, "cron": "0 3 * * *"},
        ),
        ("/v1/webhooks", WEBHOOK),
    ):
        async with boss.post(made, json=content) as answer:
            assert answer.status == 201, await answer.text()

    followed = set()
    for path, operation in reads.items():
        links = operation["responses"].get("200", {}).get("links", {})
        if (
            not links
            or path.endswith(("/runs", "/sessions"))
            or _needs_a_query(operation)
            or not given.keys() >= set(re.findall(r"\{(\w+)\}", path))
        ):
            continue
        async with boss.get(path.format(**given)) as answer:
            listed = await answer.json()
        for link in links.values():
            values = {
                name.removeprefix("path."): _value(expression, given, listed)
                for name, expression in link["parameters"].items()
            }
            assert all(values.values()), (path, link)
            target = path_of.get(link["operationId"], "")
            takes = set(re.findall(r"\{(\w+)\}", target))
            if takes == values.keys() and "stream" not in target and not _needs_a_query(reads[target]):
                async with boss.get(target.format(**values)) as answer:
                    assert answer.status == 200, (target, await answer.text())
                followed.add(link["operationId"])

    assert {"clusters_get", "jobs_get", "members_get", "service_accounts_get", "problem_type"} <= followed


async def test_the_links_of_what_was_made_lead_to_it(world: World) -> None:
    operations = {
        each["operationId"]: (method, path, each)
        for path, item in json.loads(document(route_table()))["paths"].items()
        for method, each in item.items()
    }
    boss = await world.login("boss@acme.example")

    async def call(name: str, path: dict[str, str], content: object = None) -> tuple[int, Any]:
        method, template, _ = operations[name]
        async with boss.request(method, template.format(**path), json=content) as answer:
            return answer.status, await answer.json() if answer.content_length else None

    for made, content, path, then in (
        ("tokens_make", {"name": "ci"}, {}, (("tokens_revoke", None),)),
        ("invitations_create", {"email": "ada@acme.example"}, {}, (("invitations_revoke", None),)),
        ("webhooks_create", WEBHOOK, {}, (("webhooks_get", None), ("webhooks_test", None), ("webhooks_delete", None))),
        ("service_accounts_create", {"name": "ci"}, {}, (("service_accounts_get", None),)),
        (
            "service_accounts_keys_make",
            {"name": "runner"},
            {"name": "ci"},
            (("service_accounts_keys_rotate", {}), ("service_accounts_keys_revoke", None)),
        ),
    ):
        status, answer = await call(made, path, content)
        assert status == 201, answer
        links = operations[made][2]["responses"]["201"]["links"]
        for follower, body in then:
            parameters = links[follower]["parameters"].items()
            values = {name.removeprefix("path."): _value(told, path, answer) for name, told in parameters}
            assert (await call(follower, values, body))[0] in (200, 201, 204), follower


def _needs_a_query(operation: dict[str, Any]) -> bool:
    return any(each["in"] == "query" and each["required"] for each in operation["parameters"])


def _value(expression: str, path: dict[str, str], answer: Any) -> str:
    """The value of a link's parameter: of the request's path, or at a JSON pointer in the answer."""
    place, _, pointer = expression.partition("#")
    if place != "$response.body":
        return path[place.removeprefix("$request.path.")]
    for part in pointer.split("/")[1:]:
        answer = answer[int(part) if part.isdigit() else part]
    return str(answer)
