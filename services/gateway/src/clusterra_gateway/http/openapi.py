"""The OpenAPI 3.1 document, made from the table of routes and the models in it."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from clusterra_contracts.agent_http import KEY_HEADER
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from clusterra_gateway.http.problems import MEDIA_TYPE, REQUEST_ID, Problem
from clusterra_gateway.http.route import AgentRoute, PublicRoute, Route
from clusterra_gateway.identity.authentication import COOKIE

TITLE = "Clusterra"
VERSION = "1"

_SCHEMAS = "#/components/schemas/{model}"
_PARAMETER = re.compile(r"\{(\w+)\}")
_HEADERS: dict[str, dict[str, Any]] = {
    "Idempotency-Key": {"type": "string", "pattern": "^[A-Za-z0-9_-]{8,64}$"},
    "Last-Event-ID": {"type": "string", "pattern": "^[0-9]{1,18}$"},
}
_PATHS: dict[str, dict[str, Any]] = {
    "cluster_id": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,38}$"},
    "job_id": {"type": "string", "pattern": "^[1-9][0-9]{0,9}(_[0-9]{1,7})?$"},
    "token_id": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The whole document."""
    routes = tuple(routes)
    schemas, definitions = _schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": VERSION},
        "paths": paths,
        "components": {
            "schemas": definitions,
            "securitySchemes": {
                "cookie": {"type": "apiKey", "in": "cookie", "name": COOKIE},
                "bearer": {"type": "http", "scheme": "bearer"},
                "agent": {"type": "apiKey", "in": "header", "name": KEY_HEADER},
            },
        },
    }


type _Schemas = Mapping[tuple[Any, JsonSchemaMode], dict[str, Any]]


def _schemas(routes: tuple[Route, ...]) -> tuple[_Schemas, dict[str, Any]]:
    wanted: list[tuple[type[BaseModel], JsonSchemaMode]] = [(Problem, "serialization")]
    for route in routes:
        if route.body is not None:
            wanted.append((route.body, "validation"))
        if isinstance(route.result, type):
            wanted.append((route.result, "serialization"))
    found, definitions = models_json_schema(list(dict.fromkeys(wanted)), ref_template=_SCHEMAS)
    return found, dict(definitions["$defs"])


def _operation(route: Route, schemas: _Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "description": route.description,
        "parameters": [*_path_parameters(route), *_query_parameters(route), *_header_parameters(route)],
        "responses": {
            str(route.status): _answer(route, schemas),
            "default": {
                "description": "A problem (RFC 9457).",
                "content": {MEDIA_TYPE: {"schema": schemas[Problem, "serialization"]}},
            },
        },
        "security": _security(route),
    }
    if route.body is not None:
        schema = schemas[route.body, "validation"]
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation


def _security(route: Route) -> list[dict[str, list[str]]]:
    match route:
        case PublicRoute():
            return []
        case AgentRoute():
            return [{"agent": []}]
        case _:
            return [{"cookie": []}, {"bearer": []}]


def _answer(route: Route, schemas: _Schemas) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "description": "Done.",
        "headers": {REQUEST_ID: {"schema": {"type": "string"}, "required": True}},
    }
    if isinstance(route.result, str):
        schema = {} if route.result == "application/json" else {"type": "string"}
        answer["content"] = {route.result: {"schema": schema}}
    elif route.result is not None:
        answer["content"] = {"application/json": {"schema": schemas[route.result, "serialization"]}}
    return answer


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _PATHS[name]}
        for name in _PARAMETER.findall(route.path)
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    schema = route.query.model_json_schema()
    return [
        {"name": name, "in": "query", "required": False, "style": "form", "explode": False, "schema": _given(each)}
        for name, each in schema["properties"].items()
    ]


def _given(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter that is not sent is not null: `anyOf [X, null]` is X."""
    choices = [choice for choice in schema.get("anyOf", []) if choice.get("type") != "null"]
    return choices[0] if len(choices) == 1 else {key: value for key, value in schema.items() if key != "title"}


def _header_parameters(route: Route) -> list[dict[str, Any]]:
    return [{"name": name, "in": "header", "required": False, "schema": _HEADERS[name]} for name in route.headers]
