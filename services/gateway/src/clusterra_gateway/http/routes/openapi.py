"""The OpenAPI 3.1 document, made from a table of routes and the models in it."""

import re
from collections.abc import Sequence
from typing import Any, Literal

import orjson
from clusterra_runtime.bounded_cache import BoundedCache
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from clusterra_gateway.http.answers.problems import TYPES, Problem
from clusterra_gateway.http.requests.parameters import Parameter
from clusterra_gateway.http.routes.error_responses import REQUEST_ID_HEADER, ErrorResponses, Schemas
from clusterra_gateway.http.routes.route import Route, path_parameters

TITLE = "Clusterra"
VERSION = "1"
DESCRIPTION = f"""\
Slurm as a service: the jobs, files, events and costs of a workspace's clusters, and the people who may use them.

A browser sends the cookie of its session, and a program a bearer token (`POST /v1/users/me/tokens`). `x-role` is the
least role that may call an operation, and `x-scope` what a limited token needs for it.

Errors are problems (RFC 9457). Programs decide by their `type`: `GET {TYPES}` lists all. 409, 429 and 503 may say in
`Retry-After` when to try again. A request with an `Idempotency-Key` is carried out once, however often it is sent.

New fields may be added to answers at any time: ignore those that you do not know.
"""

_SCHEMAS = "#/components/schemas/{model}"
_REFERENCE = re.compile(rb'"#/components/schemas/([^"]+)"')

_INFO = {
    "title": TITLE,
    "version": VERSION,
    "summary": "Slurm as a service",
    "description": DESCRIPTION,
    "contact": {"name": "The operators of this installation"},
    "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
}

_MADE = BoundedCache[tuple[tuple[object, ...], ...], bytes](4)
"""The documents by what is in them: all gateways of a process have the same routes."""


def document(routes: Sequence[Route]) -> bytes:
    """The whole document as JSON, which is made once per process: it takes 0.2 s of CPU.

    Raises KeyError for a path with a parameter that its route does not declare.
    """
    described = tuple(route.described for route in routes)
    made = _MADE.get(described)
    if made is None:
        made = _document(routes)
        _MADE.put(described, made)
    return made


def _document(routes: Sequence[Route]) -> bytes:
    schemas, definitions = _schemas(routes)
    errors = ErrorResponses(schemas)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = _operation(route, schemas)
        operation["responses"] |= errors.of(route)
        if linked := links(route, routes):
            operation["responses"][str(route.status)]["links"] = linked
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    security_schemes = {scheme.name: dict(scheme.definition) for route in routes for scheme in route.security}
    return orjson.dumps(
        {
            "openapi": "3.1.0",
            "info": _INFO,
            # Relative to the address of the document: one document is served at all addresses of an installation.
            "servers": [{"url": "/", "description": "The gateway that serves this document."}],
            "tags": [
                {"name": name, "description": description}
                for name, description in {route.room: route.room_description for route in routes}.items()
            ],
            "paths": paths,
            "components": {
                "schemas": used(definitions, [paths, errors.components]),
                "responses": errors.components,
                "securitySchemes": security_schemes,
            },
        }
    )


def used(definitions: dict[str, Any], roots: object) -> dict[str, Any]:
    """The schemas that the roots refer to, also by way of others. Pydantic keeps some that nothing refers to."""
    found, waiting = set[str](), [roots]
    while waiting:
        named = {name.decode() for name in _REFERENCE.findall(orjson.dumps(waiting.pop()))} - found
        found |= named
        waiting.extend(definitions[name] for name in named)
    return {name: schema for name, schema in definitions.items() if name in found}


def _schemas(routes: Sequence[Route]) -> tuple[Schemas, dict[str, Any]]:
    wanted: list[tuple[type[BaseModel], JsonSchemaMode]] = [(Problem, "serialization")]
    for route in routes:
        if route.body is not None:
            wanted.append((route.body, "validation"))
        wanted += [
            (each, "serialization") for each in (route.result, route.dry_result, route.error) if isinstance(each, type)
        ]
    schemas, definitions = models_json_schema(list(dict.fromkeys(wanted)), ref_template=_SCHEMAS)
    return schemas, {name: _any_of(schema) for name, schema in definitions["$defs"].items()}


def _any_of(schema: Any) -> Any:
    """The schema with `anyOf` in place of `oneOf`, and without an `anyOf` that takes any value.

    The kind of a fact tells its model, and the model for kinds of newer releases takes any kind: so a value fits two.
    """
    match schema:
        case dict():
            # A name may be of a kind of its own, such as a URN, which JSON does not know.
            made = {"anyOf" if name == "oneOf" else str(name): _any_of(part) for name, part in schema.items()}
            return {name: part for name, part in made.items() if name != "anyOf" or {} not in part}
        case list():
            return [_any_of(part) for part in schema]
    return schema


def _operation(route: Route, schemas: Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "tags": [route.room],
        "summary": _first_sentence(route.description),
        "description": route.description,
        "parameters": [*_path_parameters(route), *_query_parameters(route), *_header_parameters(route)],
        "responses": {str(route.status): _response(route.result, schemas, route.result_type)},
        "security": [{scheme.name: []} for scheme in route.security],
    }
    for media_type in route.other_results:
        operation["responses"][str(route.status)]["content"][media_type] = {"schema": {"type": "string"}}
    if route.ranges:
        operation["responses"]["206"] = _response(route.result, schemas)
    if route.dry_result is not None:
        operation["responses"]["200"] = _response(route.dry_result, schemas)
    if route.role is not None:
        operation |= {"x-role": route.role, "x-scope": route.scope}
    if route.body is not None:
        schema = schemas[route.body, "validation"]
        operation["requestBody"] = {"required": True, "content": {route.body_type: {"schema": schema}}}
    return operation


def _first_sentence(text: str) -> str:
    """The first sentence, on one line and without its full stop."""
    return " ".join(text.partition(". ")[0].partition("\n\n")[0].split()).removesuffix(".")


def _response(
    result: type[BaseModel] | str | None, schemas: Schemas, result_type: str = "application/json"
) -> dict[str, Any]:
    response: dict[str, Any] = {"description": "Done.", "headers": REQUEST_ID_HEADER}
    if isinstance(result, str):
        schema = {} if result == "application/json" else {"type": "string"}
        response["content"] = {result: {"schema": schema}}
    elif result is not None:
        response["content"] = {result_type: {"schema": schemas[result, "serialization"]}}
    return response


def _declared(route: Route, place: Literal["path", "header"]) -> dict[str, Parameter]:
    return {parameter.name: parameter for parameter in route.parameters if parameter.place == place}


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    declared = _declared(route, "path")
    return [_described(declared[name], required=True) for name in path_parameters(route.path)]


def _header_parameters(route: Route) -> list[dict[str, Any]]:
    return [_described(parameter, required=False) for parameter in _declared(route, "header").values()]


def _described(parameter: Parameter, *, required: bool) -> dict[str, Any]:
    schema = {"type": "string", "pattern": parameter.pattern}
    described = {"name": parameter.name, "in": parameter.place, "required": required, "schema": schema}
    return described | ({"description": parameter.description} if parameter.description else {})


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    model = route.query.model_json_schema()
    required = model.get("required", ())
    return [
        _query_parameter(name, _not_null(schema), required=name in required)
        for name, schema in model["properties"].items()
    ]


def _query_parameter(name: str, schema: dict[str, Any], *, required: bool) -> dict[str, Any]:
    parameter = {"name": name, "in": "query", "required": required, "style": "form", "explode": False, "schema": schema}
    # `state=` is a list without values, which counts as not given.
    return parameter | ({"allowEmptyValue": True} if schema.get("type") == "array" else {})


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter that is sent, which is never null: X for `anyOf [X, null]`."""
    choices = [choice for choice in schema.get("anyOf", []) if choice.get("type") != "null"]
    return choices[0] if len(choices) == 1 else {key: value for key, value in schema.items() if key != "title"}


def links(route: Route, routes: Sequence[Route]) -> dict[str, Any]:
    """The links of a route's answer, by the names of the operations that they lead to.

    The id of the resource comes from the answer, the ids above it from the path of the request. Raises ValueError for a
    resource without a path parameter at the end of its path.
    """
    found: dict[str, Any] = {}
    for named in route.names:
        *above, own = path_parameters(named.path)
        if not named.path.endswith(f"{{{own}}}"):
            raise ValueError(f"{named.path} does not end with the parameter that {route.name} gives")
        given = {f"path.{name}": f"$request.path.{name}" for name in above if name in path_parameters(route.path)}
        given[f"path.{own}"] = f"$response.body#{named.pointer}"
        for other in routes:
            if other is not route and _is_on(other, named.path):
                found[other.name] = {"operationId": other.name, "parameters": given}
    return found


def _is_on(route: Route, resource: str) -> bool:
    """Whether this is an operation on the resource, and on no other one below it."""
    if route.path != resource and not route.path.startswith(f"{resource}/"):
        return False
    below = path_parameters(route.path.removeprefix(resource))
    chosen = {parameter.name for parameter in route.parameters if parameter.chosen}
    return chosen.issuperset(below)
