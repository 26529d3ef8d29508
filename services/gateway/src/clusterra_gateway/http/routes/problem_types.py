"""Describes each type of problem at its own URL."""

import inspect
from http import HTTPStatus

from aiohttp import web

from clusterra_gateway.http.answers.problems import INTERNAL, STATUS, TYPES, type_name
from clusterra_gateway.http.answers.responses import ResponseBody, json_response
from clusterra_gateway.http.requests.errors import NotFound
from clusterra_gateway.http.requests.parameters import Parameter, path_id
from clusterra_gateway.http.routes.route import Named, PublicRoute, Route

TYPE = f"{TYPES}/{{name}}"
NAME = Parameter("name", "path", "^[a-z-]{1,40}$")


class ProblemType(ResponseBody):
    """A type of problem, and the status of the responses with it."""

    type: str
    name: str
    """The last part of `type`."""
    title: str
    status: int
    description: str


class ProblemTypes(ResponseBody):
    """All types of problems."""

    types: tuple[ProblemType, ...]


_INTERNAL = ProblemType(
    type=f"{TYPES}/{INTERNAL}",
    name=INTERNAL,
    title=HTTPStatus.INTERNAL_SERVER_ERROR.phrase,
    status=HTTPStatus.INTERNAL_SERVER_ERROR,
    description="The gateway failed to handle the request. The operators find the reason by the id of the request.",
)
_ALL = {
    INTERNAL: _INTERNAL,
    **{
        type_name(error): ProblemType(
            type=f"{TYPES}/{type_name(error)}",
            name=type_name(error),
            title=status.phrase,
            status=status,
            description=inspect.cleandoc(error.__doc__ or ""),
        )
        for error, status in STATUS.items()
    },
}


async def problem_types(request: web.Request) -> web.StreamResponse:
    """Lists the types of problems that responses may have."""
    return json_response(ProblemTypes(types=tuple(_ALL.values())))


async def problem_type(request: web.Request) -> web.StreamResponse:
    """Describes a type of problem."""
    found = _ALL.get(path_id(request, NAME))
    if found is None:
        raise NotFound("there is no such type of problem", hint=f"GET {TYPES} lists all")
    return json_response(found)


ROUTES: tuple[Route, ...] = (
    PublicRoute(
        "problem_types",
        "GET",
        TYPES,
        problem_types,
        result=ProblemTypes,
        names=(Named(TYPE, "/types/0/name"),),
    ),
    PublicRoute("problem_type", "GET", TYPE, problem_type, parameters=(NAME,), result=ProblemType),
)
