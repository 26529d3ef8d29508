"""What the handlers work with, made once by the app."""

from dataclasses import dataclass

from aiohttp import web
from clusterra_runtime.nats.registry import Registry

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.agents.exchange import AgentExchange
from clusterra_gateway.agents.keys import AgentKeys
from clusterra_gateway.bus.connections import Connections
from clusterra_gateway.bus.feed import Feed
from clusterra_gateway.bus.upstream import Upstream
from clusterra_gateway.identity.authentication import Authentication
from clusterra_gateway.identity.enrolment import Joining
from clusterra_gateway.identity.oidc import Issuer
from clusterra_gateway.identity.sessions import SessionKeys
from clusterra_gateway.jobs.idempotency import IdempotencyKeys
from clusterra_gateway.settings import Settings


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
