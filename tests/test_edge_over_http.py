"""An edge that loses NATS but not the gateway: real agent, real gateway, real NATS."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

from agent_process import REF
from clusterra_contracts.agent_http import new_key
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.settings import Settings
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import until
from clusterra_runtime.nats import bus
from clusterra_runtime.store.outbox import Outbox
from edge_process import running_edge
from gateway_world import World, apply_file, provisioned, running
from issuer_stand_in import CLIENT_ID, issuer_stand_in


class Link:
    """A TCP proxy for the NATS connection of an edge, which can be cut and restored."""

    def __init__(self, port: int) -> None:
        self.port = free_port()
        self._to = port
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def restore(self) -> None:
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", self.port)

    async def cut(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in tuple(self._open):
            writer.transport.abort()
        await self._server.wait_closed()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to)
        both = {writer, far_writer}
        self._open |= both
        with suppress(ConnectionError):
            async with asyncio.TaskGroup() as directions:
                directions.create_task(self._copy(reader, far_writer))
                directions.create_task(self._copy(far_reader, writer))
        for each in both:
            each.transport.abort()
            with suppress(ConnectionError):
                await each.wait_closed()
        self._open -= both

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


@asynccontextmanager
async def gateway_of(folder: Path, nats_url: str, password: Path) -> AsyncIterator[World]:
    (folder / "session.key").write_bytes(secrets.token_bytes(48))
    port = free_port()
    async with issuer_stand_in() as issuer:
        settings = Settings(
            nats_url=nats_url,
            nats_user="centre",
            nats_password_file=password,
            http_port=port,
            public_url=f"http://127.0.0.1:{port}",
            oidc_issuer=issuer.address,
            oidc_client_id=CLIENT_ID,
            session_key_file=folder / "session.key",
        )
        async with running(settings, issuer) as world:
            yield world


async def provision(world: World, key_file: Path) -> None:
    acme = provisioned("acme", REF.cluster)
    acme["clusters"] = [cluster | {"agent_key": f"file:{key_file}"} for cluster in acme["clusters"]]  # type: ignore[attr-defined]
    async with Outbox(world.store, partial(bus.store, world.client)) as outbox:
        await apply_file(Directory(world.store, outbox), acme)


async def test_an_edge_without_nats_works_over_http_and_returns_to_nats(tmp_path: Path) -> None:
    key = new_key()
    key_file = tmp_path / "agent.key"
    key_file.write_text(key)
    async with (
        running_edge(tmp_path) as edge,
        gateway_of(tmp_path, edge.server.url, edge.server.passwords["centre"]) as world,
    ):
        await provision(world, key_file)
        link = Link(urlsplit(edge.server.url).port or 0)
        await link.restore()
        edge.environment = {
            "CLUSTERRA_NATS_URL": f"nats://127.0.0.1:{link.port}",
            "CLUSTERRA_GATEWAY_URL": world.url,
            "CLUSTERRA_AGENT_KEY_FILE": str(key_file),
        }
        agent = await edge.start()
        await edge.applied(await edge.desire(1))
        await link.cut()

        up = await edge.desire(3)
        await until(lambda: len(edge.workers()) == 3, seconds=120, what="workers by HTTP", process=agent)

        beat = await edge.heartbeat(
            lambda beat: beat.applied and beat.applied.generation == up.generation and len(beat.workers or ()) == 3,
            seconds=120,
        )
        victim = min(worker.name for worker in beat.workers or ())

        await edge.desire(2, victims=(victim,))
        await until(lambda: len(edge.workers()) == 2, seconds=120, what="one worker less by HTTP", process=agent)

        await link.restore()
        await until(
            lambda: "heartbeats_by_nats" in agent.tail(50), seconds=120, what="the return to NATS", process=agent
        )

        await edge.applied(await edge.desire(4))
        await until(lambda: len(edge.workers()) == 4, seconds=120, what="workers by NATS", process=agent)

        generations = [beat.generation for beat in edge.heartbeats]
        assert len(set(generations)) == len(generations)
        overtaken = [later for earlier, later in pairwise(generations) if later < earlier]
        assert len(overtaken) <= 1, "only the request that was under way when NATS returned may arrive late"

        await link.cut()
        assert key not in agent.log.read_text()
