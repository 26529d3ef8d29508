"""What the OpenAPI document needs of a route: all that is known before anything is connected.

It has no handler, so that the same table of routes is the same description in every gateway of a process.
"""

from dataclasses import dataclass

from pydantic import BaseModel

from clusterra_gateway.http.requests.parameters import Parameter, Query
from clusterra_gateway.http.routes.route import Method, Named, Route, SecurityScheme


@dataclass(frozen=True, slots=True)
class RouteDescription:
    """A route without its handler. The fields are those of `Route`."""

    name: str
    method: Method
    path: str
    room: str
    description: str
    status: int
    ranges: bool
    parameters: tuple[Parameter, ...]
    query: type[Query] | None
    body: type[BaseModel] | None
    body_type: str
    result: type[BaseModel] | str | None
    result_type: str
    other_results: tuple[str, ...]
    dry_result: type[BaseModel] | None
    error: type[BaseModel] | str | None
    error_type: str
    role: str | None
    scope: str | None
    names: tuple[Named, ...]
    security: tuple[SecurityScheme, ...]


def described(route: Route) -> RouteDescription:
    """The description of a route."""
    return RouteDescription(
        name=route.name,
        method=route.method,
        path=route.path,
        room=route.room,
        description=route.description,
        status=route.status,
        ranges=route.ranges,
        parameters=route.parameters,
        query=route.query,
        body=route.body,
        body_type=route.body_type,
        result=route.result,
        result_type=route.result_type,
        other_results=route.other_results,
        dry_result=route.dry_result,
        error=route.error,
        error_type=route.error_type,
        role=route.role,
        scope=route.scope,
        names=route.names,
        security=route.security,
    )
