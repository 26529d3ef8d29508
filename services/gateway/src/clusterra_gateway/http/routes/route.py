"""A route of the API, as the router, the OpenAPI document and the metrics need it.

Rooms add kinds of routes that authenticate their callers, such as `identity.access` for people and operators, and
`clusters.agents` for edge-agents.
"""

import inspect
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from http import HTTPStatus
from typing import ClassVar, Literal, override

from aiohttp import web
from pydantic import BaseModel

from clusterra_gateway.http.requests.parameters import Parameter, Query

type PublicHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]
type Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

_PATH_PARAMETER = re.compile(r"\{(\w+)\}")


def path_parameters(path: str) -> list[str]:
    """The names of the parameters in a path, in their order."""
    return _PATH_PARAMETER.findall(path)


@dataclass(frozen=True)
class SecurityScheme:
    """A way for callers to prove who they are: its name and definition in the OpenAPI document."""

    name: str
    definition: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Named:
    """A resource that an answer names: its path, which ends with its id, and the id's JSON pointer in the answer."""

    path: str
    pointer: str


@dataclass(frozen=True)
class Route(ABC):
    """One route. The docstring of its handler is its public description.

    `stream` marks a response without an end, `ranges` one that answers 206 to a Range. `parameters` are those in the
    path, and the request headers that the handler reads. `result` is the model of a JSON response, the media type of
    another response, or None for an empty one.
    """

    security: ClassVar[tuple[SecurityScheme, ...]] = ()
    """The schemes that callers choose from; empty for a route that is open to everyone."""
    error: ClassVar[type[BaseModel] | str | None] = None
    """The model or the media type of an error, for routes whose errors have another shape than that of a problem."""
    error_type: ClassVar[str] = "application/json"
    """The media type of an error that has a model."""
    result_type: ClassVar[str] = "application/json"
    """The media type of a response that has a model."""

    name: str
    method: Method
    path: str
    handler: Callable[..., Awaitable[web.StreamResponse]]
    _: KW_ONLY
    status: int = 200
    stream: bool = False
    ranges: bool = False
    parameters: tuple[Parameter, ...] = ()
    query: type[Query] | None = None
    body: type[BaseModel] | None = None
    body_type: str = "application/json"
    """The media type of the body."""
    result: type[BaseModel] | str | None = None
    other_results: tuple[str, ...] = ()
    """Media types that a request may choose in place of `result`."""
    dry_result: type[BaseModel] | None = None
    """The model of the response with the status 200 to a request with `dry_run`, which changes nothing."""
    role: str | None = None
    """The least role that may call the route; None for one that is open, or for other callers than people."""
    scope: str | None = None
    """What a limited token needs for it."""
    names: tuple[Named, ...] = ()
    """What its answer names: the OpenAPI document links from there to the operations on it."""
    aliases: tuple[str, ...] = ()
    """Other spellings of the path, which the OpenAPI document leaves out."""

    @property
    def description(self) -> str:
        """The public description."""
        return inspect.getdoc(self.handler) or ""

    @property
    def described(self) -> tuple[object, ...]:
        """All that the OpenAPI document says of it, and nothing that differs between the gateways of a process."""
        own = (getattr(self, each.name) for each in fields(Route) if each.name != "handler")
        return type(self), self.room, self.description, *own

    @property
    def room(self) -> str:
        """The folder of the gateway that the handler is in, such as `jobs`: the API page groups the routes by it."""
        return self.handler.__module__.split(".")[1]

    @property
    def room_description(self) -> str:
        """What the room has: the docstring of its package."""
        return inspect.getdoc(sys.modules[".".join(self.handler.__module__.split(".")[:2])]) or ""

    @property
    def refuses(self) -> frozenset[HTTPStatus]:
        """The statuses with which this kind of route may refuse a request, whatever its handler does."""
        return frozenset()

    @property
    def pattern(self) -> str:
        """The path as the router takes it."""
        return self.path

    @property
    def has_head(self) -> bool:
        """Whether HEAD is answered like GET, without the body: not for streams, redirects and files."""
        return self.method == "GET" and not self.stream and isinstance(self.result, type)

    @abstractmethod
    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answers one request."""


@dataclass(frozen=True)
class PublicRoute(Route):
    """A route that is open to everyone."""

    handler: PublicHandler

    @override
    async def serve(self, request: web.Request) -> web.StreamResponse:
        return await self.handler(request)
