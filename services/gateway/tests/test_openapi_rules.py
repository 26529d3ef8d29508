"""The OpenAPI document keeps the rules that its linters check, and lists how each operation may refuse a request."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from clusterra_gateway.http.routes.openapi import document
from route_table import route_table

OF_A_BODY = {408, 413, 415}
OF_A_CALLER = {401, 403, 429}


@cache
def whole() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(document(route_table()))
    return made


def operations() -> dict[str, dict[str, Any]]:
    return {each["operationId"]: each for item in whole()["paths"].values() for each in item.values()}


def objects(part: Any, place: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object in the document, with its place."""
    match part:
        case dict():
            yield place, part
            for name, inner in part.items():
                yield from objects(inner, f"{place}/{name}")
        case list():
            for number, inner in enumerate(part):
                yield from objects(inner, f"{place}/{number}")


def refusals(operation: dict[str, Any]) -> set[int]:
    return {int(status) for status in operation["responses"] if status.startswith("4")}


def test_the_document_says_what_it_is_whose_and_where() -> None:
    info = whole()["info"]

    assert len(info["description"]) > 100
    assert info["license"]["name"] == "Apache-2.0"
    assert info["license"]["url"].startswith("https://")
    assert info["contact"]["name"]
    assert [server["url"] for server in whole()["servers"]] == ["/"]


def test_every_tag_is_declared_once_and_used() -> None:
    declared = [tag["name"] for tag in whole()["tags"]]
    used = {tag for operation in operations().values() for tag in operation["tags"]}

    assert len(declared) == len(set(declared))
    assert set(declared) == used
    assert [tag["name"] for tag in whole()["tags"] if len(tag["description"]) < 10] == []


def test_every_operation_has_a_name_of_its_own_words_and_a_refusal() -> None:
    count = sum(len(item) for item in whole()["paths"].values())

    assert len(operations()) == count == len(route_table())
    for name, operation in operations().items():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", name)
        assert operation["summary"], name
        assert operation["description"], name
        assert refusals(operation), name
        assert "default" in operation["responses"], name


def test_every_list_says_what_is_in_it() -> None:
    lists = [(place, part) for place, part in objects(whole()) if part.get("type") == "array"]

    assert len(lists) > 100
    assert [place for place, part in lists if "items" not in part and "prefixItems" not in part] == []


def test_no_choice_takes_any_value() -> None:
    choices = [(place, part["anyOf"]) for place, part in objects(whole()) if isinstance(part.get("anyOf"), list)]

    assert len(choices) > 100
    assert [place for place, each in choices if {} in each] == []


def test_every_component_is_used() -> None:
    components = whole()["components"]
    referred = {part["$ref"] for _, part in objects(whole()) if isinstance(part.get("$ref"), str)}
    schemes = {name for operation in operations().values() for each in operation["security"] for name in each}

    for kind in ("schemas", "responses"):
        assert {f"#/components/{kind}/{name}" for name in components[kind]} - referred == set()
    assert set(components["securitySchemes"]) == schemes


def test_only_the_page_and_the_paths_of_slurmrestd_end_with_a_slash() -> None:
    ending = [path for path in whole()["paths"] if path.endswith("/") and path != "/"]

    assert ending
    assert [path for path in ending if "/slurm/" not in path and "/slurmdb/" not in path] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openapi", {400}),
        ("problem_type", {400, 404}),
        ("users_me", {400, *OF_A_CALLER}),
        ("jobs_get", {400, *OF_A_CALLER, 404}),
        ("jobs_submit", {400, *OF_A_CALLER, 404, *OF_A_BODY, 409, 422}),
        ("jobs_hold", {400, *OF_A_CALLER, 404, 409, 422}),
        ("jobs_output", {400, *OF_A_CALLER, 404, 416}),
        ("members_change", {400, *OF_A_CALLER, 404, *OF_A_BODY, 409}),
        ("tenants_create", {400, *OF_A_CALLER, *OF_A_BODY, 409, 422}),
        ("tenants_get", {400, *OF_A_CALLER, 404}),
        ("storage_presigned_url", {400, *OF_A_CALLER, 404, *OF_A_BODY}),
        ("scim_users_replace", {400, *OF_A_CALLER, 404, *OF_A_BODY, 409, 412}),
        ("agent_heartbeat", {400, *OF_A_CALLER, *OF_A_BODY}),
        ("hook_event", {400, *OF_A_CALLER, *OF_A_BODY, 409}),
        ("device_begin", {400, *OF_A_BODY, 429}),
        ("authorize_page", {400, 403, 429}),
        ("auth_callback", {400, *OF_A_CALLER, *OF_A_BODY, 409}),
        ("slurm_refused_change", {400, *OF_A_CALLER, 404}),
        ("slurm_allocate", {400, *OF_A_CALLER, 404}),
    ],
)
def test_an_operation_lists_how_it_may_refuse(name: str, expected: set[int]) -> None:
    assert refusals(operations()[name]) == expected


@pytest.mark.parametrize(
    ("name", "shaped"),
    [
        ("jobs_get", set()),
        ("slurm_job", {"application/json"}),
        ("scim_users_get", {"application/scim+json"}),
        ("device_page", {"text/html"}),
    ],
)
def test_refusals_have_the_shape_of_their_operation(name: str, shaped: set[str]) -> None:
    reference = operations()[name]["responses"]["404"]["$ref"]

    content = whole()["components"]["responses"][reference.rpartition("/")[2]]["content"]

    assert content.keys() == {*shaped, "application/problem+json"}
