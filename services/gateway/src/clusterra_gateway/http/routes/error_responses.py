"""The error responses of the OpenAPI document: one component for each shape and status, to which operations refer."""

import inspect
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from pydantic.json_schema import JsonSchemaMode

from clusterra_gateway.http.answers.problems import MEDIA_TYPE, REQUEST_ID, STATUS, Problem, type_name
from clusterra_gateway.http.routes.refusals import refusals
from clusterra_gateway.http.routes.route import Route

RESPONSES = "#/components/responses/{name}"

type Schemas = Mapping[tuple[Any, JsonSchemaMode], dict[str, Any]]
"""The schema of each model, as it is read (validation) or written (serialization)."""

REQUEST_ID_HEADER = {REQUEST_ID: {"schema": {"type": "string"}, "required": True}}
_RETRY_AFTER_HEADER = {
    "Retry-After": {"description": "Seconds until the same request may succeed.", "schema": {"type": "integer"}}
}
_TRIED_AGAIN = (HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS, None)
"""The statuses that may have Retry-After; None stands for `default`, and so for 503."""


class ErrorResponses:
    """Collects the error responses of operations as components."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self.components: dict[str, dict[str, Any]] = {}

    def of(self, route: Route) -> dict[str, Any]:
        """References to the error responses of a route, by status; `default` is any other error."""
        declared = {str(status.value): self._reference(route, status) for status in refusals(route)}
        return declared | {"default": self._reference(route, None)}

    def _reference(self, route: Route, status: HTTPStatus | None) -> dict[str, Any]:
        name = f"{_shape(route)}{'Default' if status is None else status.value}"
        if name not in self.components:
            self.components[name] = {
                "description": _meaning(route, status),
                "headers": REQUEST_ID_HEADER | (_RETRY_AFTER_HEADER if status in _TRIED_AGAIN else {}),
                "content": self._content(route),
            }
        return {"$ref": RESPONSES.format(name=name)}

    def _content(self, route: Route) -> dict[str, Any]:
        problem = {MEDIA_TYPE: {"schema": self._schemas[Problem, "serialization"]}}
        if route.error is None:
            return problem
        if isinstance(route.error, str):
            return {route.error: {"schema": {"type": "string"}}} | problem
        return {route.error_type: {"schema": self._schemas[route.error, "serialization"]}} | problem


def _shape(route: Route) -> str:
    """The name of the shape of a route's errors, such as `Problem` or `Html`."""
    if isinstance(route.error, str):
        return route.error.rpartition("/")[2].title()
    return (route.error or Problem).__name__


def _meaning(route: Route, status: HTTPStatus | None) -> str:
    """What an error response says; for a problem the types with its status, as far as there are any."""
    name = "Any other error" if status is None else status.phrase
    if route.error is not None:
        return f"{name}. A problem (RFC 9457) where no route is reached."
    types = {type_name(error): inspect.cleandoc(error.__doc__ or "") for error in STATUS if STATUS[error] == status}
    return " ".join(f"`{each}`: {text}" for each, text in types.items()) or f"{name}."
