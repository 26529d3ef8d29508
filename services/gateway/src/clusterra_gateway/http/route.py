"""What a route is, and how it is served: measured, authenticated, and with its tenant in every log line."""

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from typing import Literal, override

import structlog
from aiohttp import web
from clusterra_runtime.metrics import LATENCY_BUCKETS_SECONDS
from prometheus_client import Histogram
from pydantic import BaseModel

from clusterra_gateway.agents.keys import AgentKey
from clusterra_gateway.context import gateway
from clusterra_gateway.http.parameters import Query
from clusterra_gateway.identity.authentication import Caller

type PublicHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]
type AgentHandler = Callable[[web.Request, AgentKey], Awaitable[web.StreamResponse]]
type PrivateHandler = Callable[[web.Request, Caller], Awaitable[web.StreamResponse]]
Method = Literal["GET", "POST", "DELETE"]

SECONDS = Histogram(
    "clusterra_http_seconds",
    "From a request's arrival to its whole answer; streams are not counted",
    ("route",),
    buckets=LATENCY_BUCKETS_SECONDS,
)


@dataclass(frozen=True)
class Route(ABC):
    """One route; its handler's docstring is its description for people.

    `result` is the model of a JSON answer, or the media type of another one, or None for no body. `headers` are
    those of the request that mean something here.
    """

    name: str
    method: Method
    path: str
    handler: Callable[..., Awaitable[web.StreamResponse]]
    _: KW_ONLY
    status: int = 200
    stream: bool = False
    headers: tuple[str, ...] = ()
    query: type[Query] | None = None
    body: type[BaseModel] | None = None
    result: type[BaseModel] | str | None = None

    @property
    def description(self) -> str:
        """What it does."""
        return self.handler.__doc__ or ""

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        started = time.perf_counter()
        try:
            return await self._handle(request)
        finally:
            if not self.stream:
                SECONDS.labels(self.name).observe(time.perf_counter() - started)

    @abstractmethod
    async def _handle(self, request: web.Request) -> web.StreamResponse: ...


@dataclass(frozen=True)
class PublicRoute(Route):
    """For everybody."""

    handler: PublicHandler

    @override
    async def _handle(self, request: web.Request) -> web.StreamResponse:
        return await self.handler(request)


@dataclass(frozen=True)
class PrivateRoute(Route):
    """For an authenticated caller, whom the handler is given."""

    handler: PrivateHandler

    @override
    async def _handle(self, request: web.Request) -> web.StreamResponse:
        caller = await gateway(request).authentication.caller(request)
        with structlog.contextvars.bound_contextvars(tenant=caller.member.tenant, user=caller.member.user):
            return await self.handler(request, caller)


@dataclass(frozen=True)
class AgentRoute(Route):
    """For a cluster's agent, whose key the handler is given."""

    handler: AgentHandler

    @override
    async def _handle(self, request: web.Request) -> web.StreamResponse:
        holder = await gateway(request).agent_keys.holder(request)
        with structlog.contextvars.bound_contextvars(tenant=holder.tenant, cluster=holder.cluster):
            return await self.handler(request, holder)
