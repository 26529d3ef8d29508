"""A change of the HTTP API breaks no client, or the changelog names it."""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from api_compatibility import Document, incompatible, operations
from record_api import FILE, record

REFERENCE = re.compile(r'"#/components/schemas/([^"]+)"')
CHANGELOG = Path(__file__).parents[3] / "docs" / "api-changelog.md"
SUBMIT, LIST, GET = (
    "POST /v1/clusters/{cluster_id}/jobs/submit",
    "GET /v1/clusters/{cluster_id}/jobs",
    "GET /v1/clusters/{cluster_id}/jobs/{job_id}",
)


def today() -> Document:
    made: Document = json.loads(json.dumps(record()))
    return made


def unreleased() -> tuple[str, str]:
    """The changelog's sections of what is not released: all of it, and what breaks clients."""
    section = CHANGELOG.read_text().partition("\n## Unreleased\n")[2].partition("\n## ")[0]
    return section, section.partition("\n### Breaking\n")[2]


def test_the_changelog_names_every_change() -> None:
    before, now = json.loads(FILE.read_text()), today()
    told, breaking = unreleased()

    broken = {name: why for name, why in incompatible(before, now).items() if f"`{name}`" not in breaking}
    new = {name for name in operations(now).keys() - operations(before).keys() if f"`{name}`" not in told}

    assert broken == {}, "clients break: keep what they rely on, or name the operation in docs/api-changelog.md"
    assert new == set(), "name new operations in docs/api-changelog.md"


def answers(document: Document) -> list[tuple[str, str, str]]:
    """Each field of each model that an operation answers with: operation, model and field."""
    found = []
    for name, each in operations(document).items():
        for response in each["responses"].values():
            for content in response.get("content", {}).values():
                model = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
                fields = document["components"]["schemas"].get(model, {}).get("properties", {})
                found += [(name, model, field) for field in fields]
    return found


def test_a_field_that_is_gone_from_an_answer_is_found_wherever_it_was() -> None:
    before = today()
    fields = {(model, field): name for name, model, field in answers(before)}
    assert len(fields) > 100

    for (model, field), name in fields.items():
        after = {**before, "components": {"schemas": dict(before["components"]["schemas"])}}
        without = dict(after["components"]["schemas"][model])
        without["properties"] = {key: value for key, value in without["properties"].items() if key != field}
        without["required"] = [key for key in without.get("required", ()) if key != field]
        after["components"]["schemas"][model] = without

        assert name in incompatible(only(before, name), only(after, name)), f"{model}.{field}"


def only(document: Document, name: str) -> Document:
    """The document with one operation and the schemas that it refers to."""
    method, _, path = name.partition(" ")
    wanted = document["paths"][path][method.lower()]
    schemas, waiting = dict[str, Any](), [wanted]
    while waiting:
        for schema in set(REFERENCE.findall(json.dumps(waiting.pop()))) - schemas.keys():
            schemas[schema] = document["components"]["schemas"][schema]
            waiting.append(schemas[schema])
    return {"paths": {path: {method.lower(): wanted}}, "components": {"schemas": schemas}}


def operation(document: Document, name: str) -> dict[str, Any]:
    return operations(document)[name]


def parameter(document: Document, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in operation(document, LIST)["parameters"] if each["name"] == name)
    return found


def schema(document: Document, name: str) -> dict[str, Any]:
    found: dict[str, Any] = document["components"]["schemas"][name]
    return found


def remove_route(document: Document) -> None:
    del document["paths"]["/v1/clusters/{cluster_id}/jobs/{job_id}"]["get"]


def remove_field_of_answers(document: Document) -> None:
    del schema(document, "Job")["properties"]["state"]
    schema(document, "Job")["required"].remove("state")


def retype_field_of_answers(document: Document) -> None:
    schema(document, "Job")["properties"]["uid"] = {"type": "string"}


def require_field_of_requests(document: Document) -> None:
    schema(document, "Submission")["properties"]["project"] = {"type": "string"}
    schema(document, "Submission").setdefault("required", []).append("project")


def remove_parameter(document: Document) -> None:
    operation(document, LIST)["parameters"].remove(parameter(document, "qos"))


def require_parameter(document: Document) -> None:
    parameter(document, "qos")["required"] = True


def narrow_parameter(document: Document) -> None:
    parameter(document, "limit")["schema"]["maximum"] = 10


def change_status(document: Document) -> None:
    responses = operation(document, SUBMIT)["responses"]
    responses["202"] = responses.pop("201")


def rename_operation(document: Document) -> None:
    operation(document, LIST)["operationId"] = "jobs_all"


def raise_role(document: Document) -> None:
    operation(document, LIST)["x-role"] = "admin"


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (remove_route, GET),
        (remove_field_of_answers, LIST),
        (retype_field_of_answers, LIST),
        (require_field_of_requests, SUBMIT),
        (remove_parameter, LIST),
        (require_parameter, LIST),
        (narrow_parameter, LIST),
        (change_status, SUBMIT),
        (raise_role, LIST),
        (rename_operation, LIST),
    ],
)
def test_what_breaks_clients_is_found(change: Callable[[Document], None], broken: str) -> None:
    before = today()
    after = copy.deepcopy(before)

    change(after)

    assert broken in incompatible(before, after)


def add_route(document: Document) -> None:
    document["paths"]["/v1/new"] = {"get": copy.deepcopy(operation(document, LIST))}


def add_field_of_answers(document: Document) -> None:
    schema(document, "Job")["properties"]["cost"] = {"type": "string"}
    schema(document, "Job")["required"].append("cost")


def add_optional_field_of_requests(document: Document) -> None:
    schema(document, "Submission")["properties"]["project"] = {"type": "string"}


def widen_parameter(document: Document) -> None:
    parameter(document, "limit")["schema"]["maximum"] = 100_000


def refuse_less(document: Document) -> None:
    del operation(document, SUBMIT)["responses"]["422"]


def add_parameter(document: Document) -> None:
    added = {"name": "new", "in": "query", "required": False, "schema": {"type": "string"}}
    operation(document, LIST)["parameters"].append(added)


@pytest.mark.parametrize(
    "change",
    [add_route, add_field_of_answers, add_optional_field_of_requests, widen_parameter, refuse_less, add_parameter],
)
def test_what_only_adds_breaks_nobody(change: Callable[[Document], None]) -> None:
    before = today()
    after = copy.deepcopy(before)

    change(after)

    assert after != before
    assert incompatible(before, after) == {}
