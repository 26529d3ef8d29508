"""A stand-in for the gateway that answers agents as the contract says, with failures that a test can inject."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Literal

from aiohttp import web
from clusterra_contracts.agent_http import KEY_HEADER, PATH, AgentHeartbeat, AgentHeartbeatReply
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.scale import DesiredState

type Failure = int | Literal["lose", "hang", "garbage"] | str


@dataclass
class GatewayStandIn:
    """Each of `failures` applies to one request, then `always` applies. Other requests are answered with `desired`."""

    url: str = ""
    desired: DesiredState | None = None
    failures: list[Failure] = field(default_factory=list)
    always: Failure | None = None
    heartbeats: list[Heartbeat] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = AgentHeartbeat.model_validate_json(await request.read())
        assert body.heartbeat is not None
        self.heartbeats.append(body.heartbeat)
        self.keys.append(request.headers[KEY_HEADER])
        match self.failures.pop(0) if self.failures else self.always:
            case None:
                reply = AgentHeartbeatReply(
                    scaling_commands=None, scaling_commands_version=0, protected_nodes=(), desired=self.desired
                )
                return web.Response(body=reply.model_dump_json().encode(), content_type="application/json")
            case int(status):
                return web.Response(status=status, headers={"Retry-After": "1"})
            case "lose":
                assert request.transport is not None
                request.transport.abort()
            case "hang":
                await asyncio.Event().wait()
            case "garbage":
                return web.Response(body=b'{"ack": true}')
            case elsewhere:
                return web.Response(status=307, headers={"Location": str(elsewhere)})
        return web.Response()


@asynccontextmanager
async def gateway_stand_in(tls: SSLContext | None = None) -> AsyncIterator[GatewayStandIn]:
    stand_in = GatewayStandIn()
    app = web.Application(client_max_size=4 * 1024 * 1024)
    app.router.add_post(PATH, stand_in.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        stand_in.url = f"http{'s' if tls else ''}://127.0.0.1:{site.port}"
        yield stand_in
    finally:
        await runner.cleanup()
