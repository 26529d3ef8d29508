"""Links of the OpenAPI document: what an answer names, and the operations on it.

A route says which resource its answer names, and where. The links to all operations on this resource follow from the
table of routes.
"""

import re
from collections.abc import Sequence
from typing import Any

from clusterra_gateway.http.routes.route_description import RouteDescription

_PATH_PARAMETER = re.compile(r"\{(\w+)\}")


def links(route: RouteDescription, routes: Sequence[RouteDescription]) -> dict[str, Any]:
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


def path_parameters(path: str) -> list[str]:
    """The names of the parameters in a path, in their order."""
    return _PATH_PARAMETER.findall(path)


def _is_on(route: RouteDescription, resource: str) -> bool:
    """Whether this is an operation on the resource, and on no other one below it."""
    if route.path != resource and not route.path.startswith(f"{resource}/"):
        return False
    below = path_parameters(route.path.removeprefix(resource))
    chosen = {parameter.name for parameter in route.parameters if parameter.chosen}
    return chosen.issuperset(below)
