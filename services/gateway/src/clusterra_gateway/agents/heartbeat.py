"""The agents' route: `POST /v1/internal/agent/heartbeat`."""

from aiohttp import web
from clusterra_contracts.agent_http import AgentHeartbeat

from clusterra_gateway.agents.keys import AgentKey
from clusterra_gateway.context import gateway
from clusterra_gateway.http.errors import Forbidden
from clusterra_gateway.http.parameters import body
from clusterra_gateway.http.replies import reply


async def heartbeat(request: web.Request, holder: AgentKey) -> web.StreamResponse:
    """What an edge has, and back what it should have: for agents that do not reach NATS."""
    exchange = gateway(request).agent_exchange
    exchange.admit(holder.ref)
    told = await body(request, AgentHeartbeat)
    if told.cluster_id != holder.cluster:
        raise Forbidden("this key is another cluster's", hint="give each agent its own cluster's id and key")
    return reply(await exchange.answer(holder, told))
