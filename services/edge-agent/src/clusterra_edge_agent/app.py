"""The edge-agent, wired: workers as desired, heartbeats, news, and log reads."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

import structlog
from clusterra_contracts import permissions, subjects
from clusterra_contracts.edge_rpc import ReadLog
from clusterra_runtime import bus, rpc
from clusterra_runtime.events import EventPublisher
from clusterra_runtime.service import Service, run

from clusterra_edge_agent import state
from clusterra_edge_agent.controller import Controller
from clusterra_edge_agent.desired import LatestDesired, follow
from clusterra_edge_agent.facts import Facts, FactSource
from clusterra_edge_agent.heartbeat import Heartbeats
from clusterra_edge_agent.logs import MAX_READS, Logs
from clusterra_edge_agent.news import tell_news
from clusterra_edge_agent.process import ProcessSubstrate
from clusterra_edge_agent.settings import Settings
from clusterra_edge_agent.slurmd import Slurmd
from clusterra_edge_agent.substrate import Substrate

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
        async with opened(settings) as (substrate, source):
            client = await bus.connect(settings, NAME, inbox_prefix=permissions.inbox_prefix(ref))
            controller = Controller(latest, substrate, connected=lambda: client.is_connected)
            heartbeats = Heartbeats(
                client,
                ref,
                substrate,
                lambda: controller.applied,
                version("clusterra-edge-agent"),
                facts=source.facts if source else Facts,
            )
            changes = [substrate.changes, controller.changes]
            logs = Logs(settings.shared_dir)
            await rpc.serve(client, subjects.edge(ref, "log"), ReadLog, logs.read, concurrency=MAX_READS)
            service.ready_when("nats", lambda: client.is_connected)
            service.background("substrate", substrate.run)
            service.background("controller", controller.run)
            if source is not None:
                changes.append(source.changes)
                service.background("facts", source.run)
            service.background("heartbeats", lambda: heartbeats.run(*changes))
            service.background("news", lambda: tell_news(EventPublisher(client, NAME), ref, substrate))
            service.background("desired", lambda: follow(client, ref, latest))
            try:
                yield
            finally:
                logs.end_waits()
                await bus.close(client)
                logs.close()


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[tuple[Substrate, FactSource | None]]:
    """The substrate of these settings, and what else is known of its edge.

    Raises kubernetes.api.ApiError, state.StateUnreadable, OSError.
    """
    if settings.substrate == "kubernetes":
        # Only here: the other substrate shall not pay for what it does not use.
        from clusterra_edge_agent.kubernetes.api import connected
        from clusterra_edge_agent.kubernetes.node_facts import NodeFacts
        from clusterra_edge_agent.kubernetes.power_states import PowerStateSubstrate
        from clusterra_edge_agent.kubernetes.substrate import KubernetesSubstrate
        from clusterra_edge_agent.kubernetes.targets import deployments, slinky

        async with connected(settings.kubernetes_namespace, settings.kubeconfig) as api:
            match settings.kubernetes_target:
                case "deployment":
                    kubernetes = KubernetesSubstrate(api, settings.state_dir, deployments)
                    yield (
                        kubernetes,
                        NodeFacts(
                            api,
                            kubernetes,
                            ghost_seconds=settings.ghost_seconds,
                            metrics_url=settings.karpenter_metrics_url,
                        ),
                    )
                case "slinky":
                    yield KubernetesSubstrate(api, settings.state_dir, slinky), None
                case "soperator":
                    yield PowerStateSubstrate(api, settings.state_dir), None
        return
    substrate = process_substrate(settings)
    try:
        substrate.adopt()
        yield substrate, None
    finally:
        substrate.close()


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
