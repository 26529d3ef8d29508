"""Declares routes at their handlers: `@api.get("members_list", MEMBERS, result=MemberPage)` above a method.

A group carries what its routes share: their kind, who may call them, and the parameters of their paths.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Concatenate, TypedDict, Unpack

from aiohttp import web
from pydantic import BaseModel

from clusterra_gateway.http.requests.parameters import Parameter, Query
from clusterra_gateway.http.routes.route import Method, Named, PublicRoute, Route, path_parameters

type Handler[S, **P] = Callable[Concatenate[S, P], Awaitable[web.StreamResponse]]
"""A method of a class of handlers, with its `self`."""

_DECLARED = "_declared_routes"
"""The attribute of a method with its routes."""


class RouteOptions(TypedDict, total=False):
    """What a route says besides its name, method and path: the fields of `Route` and of its kinds.

    `parameters` are the headers; the group knows the parameters in paths. Without a result, the status is 204.
    """

    status: int
    stream: bool
    ranges: bool
    parameters: tuple[Parameter, ...]
    query: type[Query]
    body: type[BaseModel]
    body_type: str
    result: type[BaseModel] | str
    other_results: tuple[str, ...]
    dry_result: type[BaseModel]
    role: str
    scope: str
    names: tuple[Named, ...]
    aliases: tuple[str, ...]
    any_query: bool


@dataclass(frozen=True, slots=True)
class _Declared:
    group: "RouteGroup[...]"
    name: str
    method: Method
    path: str
    options: RouteOptions

    def route(self, handler: Callable[..., Awaitable[web.StreamResponse]], access: object) -> Route:
        group, options = self.group, self.options
        known = {parameter.name: parameter for parameter in group.parameters}
        given: dict[str, Any] = {"status": 200 if "result" in options else 204}
        given |= {**(group.reads if self.method == "GET" else group.changes), **options}
        given["parameters"] = (
            *(known[name] for name in path_parameters(self.path)),
            *options.get("parameters", ()),
        )
        if any(each.name == "access" for each in fields(group.kind)):
            given["access"] = access
        return group.kind(self.name, self.method, self.path, handler, **given)


@dataclass(frozen=True)
class RouteGroup[**P]:
    """Routes of one kind, whose handlers take `P` after `self`."""

    kind: type[Route]
    parameters: tuple[Parameter, ...] = ()
    """The parameters of all their paths."""
    reads: Mapping[str, Any] = field(default_factory=dict)
    """What holds for each GET that does not say otherwise, such as its role and scope."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """What holds for each other method."""

    def get[S](self, name: str, path: str, **options: Unpack[RouteOptions]) -> Callable[[Handler[S, P]], Handler[S, P]]:
        """Declares a GET."""
        return self._declaring(name, "GET", path, options)

    def post[S](
        self, name: str, path: str, **options: Unpack[RouteOptions]
    ) -> Callable[[Handler[S, P]], Handler[S, P]]:
        """Declares a POST."""
        return self._declaring(name, "POST", path, options)

    def put[S](self, name: str, path: str, **options: Unpack[RouteOptions]) -> Callable[[Handler[S, P]], Handler[S, P]]:
        """Declares a PUT."""
        return self._declaring(name, "PUT", path, options)

    def patch[S](
        self, name: str, path: str, **options: Unpack[RouteOptions]
    ) -> Callable[[Handler[S, P]], Handler[S, P]]:
        """Declares a PATCH."""
        return self._declaring(name, "PATCH", path, options)

    def delete[S](
        self, name: str, path: str, **options: Unpack[RouteOptions]
    ) -> Callable[[Handler[S, P]], Handler[S, P]]:
        """Declares a DELETE."""
        return self._declaring(name, "DELETE", path, options)

    def _declaring[S](
        self, name: str, method: Method, path: str, options: RouteOptions
    ) -> Callable[[Handler[S, P]], Handler[S, P]]:
        def declare(handler: Handler[S, P]) -> Handler[S, P]:
            # Decorators apply from the last to the first.
            declared = (_Declared(self, name, method, path, options), *getattr(handler, _DECLARED, ()))
            setattr(handler, _DECLARED, declared)
            return handler

        return declare


def public_routes(*parameters: Parameter) -> RouteGroup[[web.Request]]:
    """Routes that are open to everyone."""
    return RouteGroup(PublicRoute, parameters)


def routes_of(*handlers: object, access: object = None) -> tuple[Route, ...]:
    """The routes declared at the methods of these objects, in this order.

    `access` decides who may call those that are not public. Raises KeyError for a path with an unknown parameter.
    """
    return tuple(route for each in handlers for route in _routes(each, access))


def _routes(handlers: object, access: object) -> Iterator[Route]:
    for name, method in vars(type(handlers)).items():
        for declared in getattr(method, _DECLARED, ()):
            yield declared.route(getattr(handlers, name), access)
