"""The API's description of itself: the list of routes for programs, the OpenAPI document, and the types of problems."""

import asyncio
import gzip
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from http import HTTPStatus
from typing import Self

from aiohttp import ETag, web

from clusterra_gateway.http.answers.problems import INTERNAL, STATUS, TYPES, type_name
from clusterra_gateway.http.answers.responses import NO_STORE, ResponseBody, json_bytes, json_response
from clusterra_gateway.http.requests.errors import NotFound
from clusterra_gateway.http.requests.parameters import Parameter, path_id
from clusterra_gateway.http.routes.openapi import document
from clusterra_gateway.http.routes.route import Named, PublicRoute, Route


class ApiRoute(ResponseBody):
    """One route. The response of a `stream` has no end.

    `role` is the least role that may call it, and `scope` what a limited token needs; null for routes without a caller.
    """

    name: str
    method: str
    path: str
    stream: bool
    role: str | None
    scope: str | None


class ApiRoutes(ResponseBody):
    """All routes."""

    routes: tuple[ApiRoute, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """The OpenAPI document as it is sent: its bytes, also compressed, and what its ETag says."""

    plain: bytes
    compressed: bytes
    digest: str

    @classmethod
    def of(cls, routes: Sequence[Route]) -> Self:
        """The document of some routes. To make it takes 0.2 s of CPU."""
        plain = document(routes)
        return cls(plain, gzip.compress(plain, mtime=0), blake2b(plain, digest_size=16).hexdigest())


class ApiDescription:
    """The descriptions of some routes as JSON. Each is made at its first read: most replicas are never asked."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._document: Document | None = None

    @cached_property
    def listed(self) -> ApiRoutes:
        """All routes."""
        return ApiRoutes(routes=tuple(map(ApiRoute.showing, self._routes)))

    async def document(self) -> Document:
        """The OpenAPI document, made and compressed once, on a thread."""
        if self._document is None:
            self._document = await asyncio.to_thread(Document.of, self._routes)
        return self._document


DESCRIPTION = web.AppKey("description", ApiDescription)


async def api_routes(request: web.Request) -> web.StreamResponse:
    """Lists all routes, for programs that build on them."""
    return json_response(request.app[DESCRIPTION].listed)


async def openapi(request: web.Request) -> web.StreamResponse:
    """Returns this document."""
    document = await request.app[DESCRIPTION].document()
    if "gzip" in request.headers.get("Accept-Encoding", "").lower():
        response = json_bytes(document.compressed, headers={**NO_STORE, "Content-Encoding": "gzip"})
    else:
        response = json_bytes(document.plain)
    response.headers["Vary"] = "Accept-Encoding"
    response.etag = ETag(document.digest, is_weak=True)
    return response


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


def _type(name: str, status: HTTPStatus, description: str) -> ProblemType:
    return ProblemType(type=f"{TYPES}/{name}", name=name, title=status.phrase, status=status, description=description)


_INTERNAL_DESCRIPTION = (
    "The gateway failed to handle the request. The operators find the reason by the id of the request."
)
_ALL = {
    INTERNAL: _type(INTERNAL, HTTPStatus.INTERNAL_SERVER_ERROR, _INTERNAL_DESCRIPTION),
    **{
        type_name(error): _type(type_name(error), status, inspect.cleandoc(error.__doc__ or ""))
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
        "problem_types", "GET", TYPES, problem_types, result=ProblemTypes, names=(Named(TYPE, "/types/0/name"),)
    ),
    PublicRoute("problem_type", "GET", TYPE, problem_type, parameters=(NAME,), result=ProblemType),
    PublicRoute("api_routes", "GET", "/v1/api-routes", api_routes, result=ApiRoutes),
    PublicRoute("openapi", "GET", "/v1/openapi.json", openapi, result="application/json"),
)
