"""The statuses from 400 to 499 that a route may answer with, derived from what the route declares."""

import re
from http import HTTPStatus

from clusterra_gateway.http.routes.route import Route, path_parameters

_OF_A_BODY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
_STATUSES = "|".join(str(status.value) for status in HTTPStatus if status.is_client_error)
_NAMED = re.compile(rf"(?<![\w.,])({_STATUSES})(?![\w.,]*\d)")
"""A status in a description, such as `409 for a job that is not pending`."""


def refusals(route: Route) -> list[HTTPStatus]:
    """The statuses with which a route may refuse a request, in ascending order.

    They follow from its kind, its parameters, its body, and its description, as far as that names a status. 400 is
    always one: a request whose head cannot be read reaches no handler.
    """
    found = {HTTPStatus.BAD_REQUEST, *route.refuses}
    for parameter in route.parameters:
        found.update(parameter.refuses)
    if path_parameters(route.path):
        found.add(HTTPStatus.NOT_FOUND)
    if route.body is not None:
        found.update(_OF_A_BODY)
    found.update(HTTPStatus(int(named)) for named in _NAMED.findall(route.description))
    return sorted(found)
