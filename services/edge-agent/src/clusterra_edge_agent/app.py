"""The edge-agent, wired: workers as desired, heartbeats on NATS or by HTTP, news, and log reads."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version

import structlog
from clusterra_contracts.bus import permissions, subjects
from clusterra_contracts.rpc.edge import ReadLog
from clusterra_runtime.nats import bus, rpc
from clusterra_runtime.nats.events import EventPublisher
from clusterra_runtime.service import Service, run

from clusterra_edge_agent.control.desired import LatestDesired, follow
from clusterra_edge_agent.control.loop import Controller
from clusterra_edge_agent.heartbeat.edge_facts import Facts, FactSource
from clusterra_edge_agent.heartbeat.heartbeat import Heartbeats
from clusterra_edge_agent.heartbeat.http_fallback import Exchange, Fallback
from clusterra_edge_agent.heartbeat.worker_events import tell_news
from clusterra_edge_agent.logs.log_reads import MAX_READS, Logs
from clusterra_edge_agent.process.slurmd import Slurmd
from clusterra_edge_agent.process.substrate import ProcessSubstrate
from clusterra_edge_agent.settings import Settings
from clusterra_edge_agent.substrate import state_files as state
from clusterra_edge_agent.substrate.changes import Changes
from clusterra_edge_agent.substrate.leadership import Leadership, Sole, while_speaking
from clusterra_edge_agent.substrate.port import Substrate

NAME = "edge-agent"


@asynccontextmanager
async def app(service: Service) -> AsyncIterator[None]:
    """The agent of one cluster. When it ends its workers go on: they are the customer's capacity and run jobs."""
    settings = service.settings
    assert isinstance(settings, Settings)  # noqa: S101 - `main` gives them
    ref = settings.ref
    structlog.contextvars.bind_contextvars(tenant=ref.tenant, cluster=ref.cluster)
    with state.locked(settings.state_dir) as folder:
        latest = LatestDesired(folder)
        async with opened(settings) as (substrate, source, leadership):
            client, on_nats = bus.Client(), Changes()

            def connected() -> bool:
                return client.is_connected or fallback.connected

            controller = Controller(latest, substrate, lambda: connected() and leadership.held)
            heartbeats = Heartbeats(
                client,
                ref,
                substrate,
                lambda: controller.applied,
                version("clusterra-edge-agent"),
                facts=source.facts if source else Facts,
                speaks=lambda: leadership.speaks,
            )
            fallback = Fallback(client, heartbeats.make, latest, lambda: leadership.speaks)
            changes = [substrate.changes, controller.changes, leadership.changes]
            logs = Logs(settings.shared_dir)

            async def nats() -> None:
                await client.open(settings, NAME, permissions.inbox_prefix(ref))
                on_nats.tell()
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(while_speaking(leadership, serve_logs))
                    await follow(client, ref, latest)

            async def serve_logs() -> Callable[[], Awaitable[None]]:
                reads = await rpc.serve(client, subjects.edge(ref, "log"), ReadLog, logs.read, concurrency=MAX_READS)
                return reads.unsubscribe

            # One that stands by is ready: it is there, and a rollout need not wait until a Lease has run out.
            service.ready_when("centre", connected)
            service.background("leadership", leadership.run)
            service.background("substrate", substrate.run)
            service.background("controller", lambda: controller.run(leadership.changes))
            if source is not None:
                changes.append(source.changes)
                service.background("facts", source.run)
            service.background("heartbeats", lambda: heartbeats.run(on_nats, *changes))
            service.background("news", lambda: tell_news(EventPublisher(client, NAME), ref, substrate, leadership))
            service.background("nats", nats)
            if settings.gateway_url is not None:
                by_http = partial(exchange_opened, settings)
                service.background("fallback", lambda: fallback.run(by_http, *changes))
            try:
                yield
            finally:
                logs.end_waits()
                await bus.close(client)
                logs.close()


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[tuple[Substrate, FactSource | None, Leadership]]:
    """The substrate of these settings, what else is known of its edge, and whether this agent is the one that acts.

    Raises kubernetes.refusals.ApiError, state.StateUnreadable, OSError.
    """
    if settings.substrate == "kubernetes":
        # Only here: the other substrate shall not pay for what it does not use.
        from clusterra_edge_agent.kubernetes.client.api import connected
        from clusterra_edge_agent.kubernetes.election.lease import KubernetesLease, identity
        from clusterra_edge_agent.kubernetes.machines.node_facts import NodeFacts
        from clusterra_edge_agent.kubernetes.workers.soperator import PowerStateSubstrate
        from clusterra_edge_agent.kubernetes.workers.substrate import KubernetesSubstrate
        from clusterra_edge_agent.kubernetes.workers.targets import deployments, slinky

        async with connected(settings.kubernetes_namespace, settings.kubeconfig) as own:
            lease = KubernetesLease(own, identity(settings.state_dir))
            api = own.led_by(lease)
            facts: FactSource | None = None
            match settings.kubernetes_target:
                case "deployment":
                    kubernetes = KubernetesSubstrate(api, settings.state_dir, deployments)
                    facts = NodeFacts(
                        api,
                        kubernetes,
                        ghost_seconds=settings.ghost_seconds,
                        metrics_url=settings.karpenter_metrics_url,
                    )
                case "slinky":
                    kubernetes = KubernetesSubstrate(api, settings.state_dir, slinky)
                case "soperator":
                    kubernetes = PowerStateSubstrate(api, settings.state_dir)
            try:
                yield kubernetes, facts, lease
            finally:
                await lease.release()
        return
    substrate = process_substrate(settings)
    try:
        substrate.adopt()
        yield substrate, None, Sole()
    finally:
        substrate.close()


@asynccontextmanager
async def exchange_opened(settings: Settings) -> AsyncIterator[Exchange]:
    """The way to the gateway of these settings."""
    # Only here: an agent that has NATS shall not pay for HTTP.
    from clusterra_edge_agent.heartbeat.http_exchange import opened

    assert settings.gateway_url is not None  # noqa: S101 - nobody else calls it
    assert settings.agent_key_file is not None  # noqa: S101 - the settings take both or none
    async with opened(settings.gateway_url, settings.ref, settings.agent_key_file) as exchange:
        yield exchange


def process_substrate(settings: Settings) -> ProcessSubstrate:
    """The `process` substrate of these settings."""
    slurmd = Slurmd(
        launcher=settings.worker_launcher,
        path=settings.slurmd_path,
        conf=settings.slurmd_conf,
        conf_server=settings.slurmd_conf_server,
    )
    return ProcessSubstrate(
        slurmd,
        settings.state_dir,
        ports=settings.slurmd_port_range,
        spool=settings.slurmd_spool,
        grace_seconds=settings.slurmd_grace_seconds,
    )


def main() -> None:
    """Run the edge-agent."""
    run(NAME, Settings(), app)
