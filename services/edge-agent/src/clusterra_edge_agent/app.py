"""Wires the edge-agent: control loop, heartbeats on NATS or by HTTP, worker events, log reads, folders, sessions."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import structlog
from clusterra_contracts.bus import permissions, subjects
from clusterra_contracts.bus.topology import MAX_MESSAGE_BYTES
from clusterra_contracts.rpc.edge import ReadLog
from clusterra_contracts.scale import DesiredState
from clusterra_runtime.nats import bus, rpc
from clusterra_runtime.nats.credentials import login_end
from clusterra_runtime.nats.events import EventPublisher
from clusterra_runtime.nats.versions import software_version
from clusterra_runtime.service import Service, run

from clusterra_edge_agent.control.desired import LatestDesired, follow, read_newest
from clusterra_edge_agent.control.loop import ControlLoop
from clusterra_edge_agent.folders.folder_requests import FolderRequests
from clusterra_edge_agent.heartbeat.builder import HeartbeatBuilder
from clusterra_edge_agent.heartbeat.edge_status import EdgeStatus, EdgeStatusSource
from clusterra_edge_agent.heartbeat.heartbeat import Heartbeats
from clusterra_edge_agent.heartbeat.http_fallback import Exchange, HttpFallback
from clusterra_edge_agent.heartbeat.worker_events import publish_worker_events
from clusterra_edge_agent.logs.log_reads import MAX_READS, LogReader
from clusterra_edge_agent.process.gentle_end import Grace
from clusterra_edge_agent.process.slurmd import Slurmd
from clusterra_edge_agent.process.substrate import ProcessSubstrate
from clusterra_edge_agent.sessions.session_streams import SessionStreams
from clusterra_edge_agent.settings import Settings
from clusterra_edge_agent.substrate import state_files
from clusterra_edge_agent.substrate.change_signal import ChangeSignal
from clusterra_edge_agent.substrate.leadership import Leadership, Sole, while_reporting
from clusterra_edge_agent.substrate.port import Substrate

NAME = "edge-agent"


@asynccontextmanager
async def app(service: Service) -> AsyncIterator[None]:
    """Runs the agent of one cluster. The workers outlive it: they are the customer's capacity and run jobs."""
    settings = service.settings
    assert isinstance(settings, Settings)  # noqa: S101 - `main` passes them
    ref = settings.ref
    structlog.contextvars.bind_contextvars(tenant=ref.tenant, cluster=ref.cluster)
    with state_files.locked(settings.state_dir) as folder:
        latest = LatestDesired(folder)
        async with open_substrate(settings) as (substrate, source, leadership):
            client, on_nats = bus.Client(login_bytes=MAX_MESSAGE_BYTES), ChangeSignal()

            def connected() -> bool:
                return client.is_connected or fallback.connected

            async def newest() -> DesiredState | None:
                return await (read_newest(client, ref, latest) if client.is_connected else fallback.read_newest())

            control_loop = ControlLoop(latest, substrate, newest, lambda: connected() and leadership.held)
            builder = HeartbeatBuilder(
                substrate,
                lambda: control_loop.applied,
                software_version(NAME, settings.software_version),
                edge_status=source.status if source else EdgeStatus,
                login_end=partial(login_end, settings.nats_credentials_file),
            )
            heartbeats = Heartbeats(client, ref, builder.build, lambda: leadership.may_report)
            fallback = HttpFallback(client, builder.build, latest, lambda: leadership.may_report)
            signals = [substrate.change_signal, control_loop.change_signal, leadership.change_signal]
            folders = FolderRequests(settings.shared_dir)
            logs = LogReader(settings.shared_dir, folders.opened_as)
            sessions = SessionStreams(settings.shared_dir, substrate)

            async def nats() -> None:
                await client.open(settings, NAME, permissions.inbox_prefix(ref))
                on_nats.notify()
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(while_reporting(leadership, serve_logs))
                    tasks.create_task(while_reporting(leadership, lambda: sessions.serve(client, ref)))
                    tasks.create_task(while_reporting(leadership, lambda: folders.serve(client, ref)))
                    await follow(client, ref, latest)

            async def serve_logs() -> Callable[[], Awaitable[None]]:
                reads = await rpc.serve(client, subjects.edge(ref, "log"), ReadLog, logs.read, concurrency=MAX_READS)
                return reads.unsubscribe

            # A standby agent is ready too: a rollout need not wait until the Lease expires.
            service.ready_when("centre", connected)
            service.background("leadership", leadership.run)
            service.background("substrate", substrate.run)
            service.background("control-loop", lambda: control_loop.run(leadership.change_signal))
            if source is not None:
                signals.append(source.change_signal)
                service.background("edge-status", source.run)
            service.background("heartbeats", lambda: heartbeats.run(on_nats, *signals))
            service.background(
                "worker-events",
                lambda: publish_worker_events(EventPublisher(client, NAME), ref, substrate, leadership, latest.starts),
            )
            service.background("nats", nats)
            service.background("sessions", sessions.run)
            if settings.gateway_url is not None:
                by_http = partial(open_gateway_exchange, settings)
                service.background("fallback", lambda: fallback.run(by_http, *signals))
            try:
                yield
            finally:
                logs.end_waits()
                sessions.close()
                folders.end_works()
                await bus.close(client)
                logs.close()
                folders.close()


@asynccontextmanager
async def open_substrate(settings: Settings) -> AsyncIterator[tuple[Substrate, EdgeStatusSource | None, Leadership]]:
    """Opens the configured substrate, the source of the edge's status, and the agent's right to act.

    Raises kubernetes.client.errors.ApiError, state_files.StateUnreadable, OSError.
    """
    if settings.substrate == "kubernetes":
        # Imported here, so that the `process` substrate does not load the Kubernetes client.
        from clusterra_edge_agent.kubernetes.client.api import connected
        from clusterra_edge_agent.kubernetes.election.lease import KubernetesLease, identity
        from clusterra_edge_agent.kubernetes.machines.edge_status import KubernetesEdgeStatus
        from clusterra_edge_agent.kubernetes.workers.soperator import PowerStateSubstrate
        from clusterra_edge_agent.kubernetes.workers.substrate import KubernetesSubstrate
        from clusterra_edge_agent.kubernetes.workers.targets import deployments, slinky

        async with connected(settings.kubernetes_namespace, settings.kubeconfig) as own:
            lease = KubernetesLease(own, identity(settings.state_dir))
            api = own.led_by(lease)
            status_source: EdgeStatusSource | None = None
            match settings.kubernetes_target:
                case "deployment":
                    kubernetes = KubernetesSubstrate(api, settings.state_dir, deployments)
                    status_source = KubernetesEdgeStatus(
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
                yield kubernetes, status_source, lease
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
async def open_gateway_exchange(settings: Settings) -> AsyncIterator[Exchange]:
    """Opens the connection to the configured gateway."""
    # Imported here, so that an agent that reaches NATS does not load the HTTP client.
    from clusterra_edge_agent.heartbeat.http_exchange import open_exchange

    assert settings.gateway_url is not None  # noqa: S101 - the caller checks it
    assert settings.agent_key_file is not None  # noqa: S101 - the settings accept both or neither
    async with open_exchange(settings.gateway_url, settings.ref, settings.agent_key_file) as exchange:
        yield exchange


def process_substrate(settings: Settings) -> ProcessSubstrate:
    """Returns the `process` substrate of these settings."""
    slurmd = Slurmd(
        launcher=settings.worker_launcher,
        path=settings.slurmd_path,
        conf=settings.slurmd_conf,
        conf_server=settings.slurmd_conf_server,
        scontrol_path=settings.scontrol_path or None,
    )
    return ProcessSubstrate(
        slurmd,
        settings.state_dir,
        ports=settings.slurmd_port_range,
        spool=settings.slurmd_spool,
        grace=Grace(settings.slurmd_jobs_grace_seconds, settings.slurmd_grace_seconds),
    )


def main() -> None:
    """Runs the edge-agent."""
    run(NAME, Settings(), app)
