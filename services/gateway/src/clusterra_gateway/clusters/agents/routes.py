"""The routes of edge-agents that speak HTTP: `POST /v1/internal/agent/heartbeat`."""

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, override

import structlog
from aiohttp import web
from clusterra_contracts.agent_http import KEY_HEADER, PATH, AgentHeartbeat, AgentHeartbeatReply

from clusterra_gateway.clusters.agents.exchange import AgentExchange
from clusterra_gateway.clusters.agents.keys import AgentKeyOwner, AgentKeys
from clusterra_gateway.http.answers.responses import json_response
from clusterra_gateway.http.requests.errors import Forbidden
from clusterra_gateway.http.requests.json_body import MAX_BODY_BYTES, BodyBounds
from clusterra_gateway.http.requests.parameters import body
from clusterra_gateway.http.routes.route import Route, SecurityScheme

type AgentHandler = Callable[[web.Request, AgentKeyOwner], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class AgentRoute(Route):
    """A route for a cluster's edge-agent. Its handler gets the agent's key, which names the cluster."""

    security: ClassVar[tuple[SecurityScheme, ...]] = (
        SecurityScheme("agent", {"type": "apiKey", "in": "header", "name": KEY_HEADER}),
    )

    handler: AgentHandler
    _: KW_ONLY
    keys: AgentKeys

    @override
    async def serve(self, request: web.Request) -> web.StreamResponse:
        owner = await self.keys.owner(request)
        with structlog.contextvars.bound_contextvars(tenant=owner.tenant, cluster=owner.cluster):
            return await self.handler(request, owner)


BOUNDS = BodyBounds(MAX_BODY_BYTES, 200_000)
"""A worker has some ten values."""


class Agents:
    """The handler of heartbeats."""

    def __init__(self, exchange: AgentExchange) -> None:
        self._exchange = exchange

    async def heartbeat(self, request: web.Request, owner: AgentKeyOwner) -> web.StreamResponse:
        """Takes an edge's heartbeat and returns its desired state, for agents that cannot reach NATS."""
        self._exchange.admit(owner.ref)
        heartbeat = await body(request, AgentHeartbeat, bounds=BOUNDS)
        if heartbeat.cluster_id != owner.cluster:
            raise Forbidden(
                "this agent key belongs to another cluster",
                hint="give each agent the id and the key of its own cluster",
            )
        return json_response(await self._exchange.answer(owner, heartbeat))


def routes(keys: AgentKeys, exchange: AgentExchange) -> tuple[Route, ...]:
    """All routes of this room."""
    agents = Agents(exchange)
    return (
        AgentRoute(
            "agent_heartbeat",
            "POST",
            PATH,
            agents.heartbeat,
            keys=keys,
            body=AgentHeartbeat,
            result=AgentHeartbeatReply,
        ),
    )
