"""What the handlers work with, made once by the app."""

from dataclasses import dataclass

from aiohttp import web
from clusterra_runtime.nats.registry import Registry

from clusterra_gateway.agent_exchange import AgentExchange
from clusterra_gateway.agent_keys import AgentKeys
from clusterra_gateway.authentication import Authentication
from clusterra_gateway.connections import Connections
from clusterra_gateway.directory import Directory
from clusterra_gateway.feed import Feed
from clusterra_gateway.idempotency import IdempotencyKeys
from clusterra_gateway.joining import Joining
from clusterra_gateway.oidc import Issuer
from clusterra_gateway.sessions import SessionKeys
from clusterra_gateway.settings import Settings
from clusterra_gateway.upstream import Upstream


@dataclass(frozen=True)
class Gateway:
    """All parts."""

    settings: Settings
    directory: Directory
    registry: Registry
    issuer: Issuer
    joining: Joining
    session_keys: SessionKeys
    authentication: Authentication
    idempotency: IdempotencyKeys
    upstream: Upstream
    connections: Connections
    feed: Feed
    agent_keys: AgentKeys
    agent_exchange: AgentExchange


GATEWAY = web.AppKey("gateway", Gateway)


def gateway(request: web.Request) -> Gateway:
    """The parts that serve this request."""
    return request.app[GATEWAY]
