"""Serves all clusters in the registry: opens, replaces and closes them as their bindings change."""

import asyncio
from functools import partial

import structlog
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.service import Service

from clusterra_proxy.cluster.cluster import Cluster, open_cluster
from clusterra_proxy.cluster.condition import Condition
from clusterra_proxy.leader import Leader
from clusterra_proxy.requests import handlers
from clusterra_proxy.settings import Settings
from clusterra_proxy.watch.condition_report import ConditionReport
from clusterra_proxy.watch.intervals import Intervals
from clusterra_proxy.watch.watcher import Watcher

log = structlog.get_logger(__name__)


class Clusters:
    """Runs one background task per binding. A changed binding ends its task and starts another.

    Every replica answers requests. Only the leader watches clusters and keeps their placeholders.
    """

    def __init__(self, service: Service, client: Client, settings: Settings, leader: Leader, secrets: Secrets) -> None:
        self._service = service
        self._client = client
        self._settings = settings
        self._leader = leader
        self._secrets = secrets
        self._tasks: dict[ClusterRef, asyncio.Task[None]] = {}

    def follow(self, registry: Registry) -> None:
        """Serve all clusters of a registry now, and follow its changes."""
        for ref, binding in registry.clusters.items():
            self._on_binding(ref, binding)
        registry.on_change.append(self._on_binding)

    def _on_binding(self, ref: ClusterRef, binding: ClusterBinding | None) -> None:
        previous = self._tasks.pop(ref, None)
        if previous is not None:
            previous.cancel()
        if binding is not None:
            run = partial(self._serve, ref, binding, previous)
            self._tasks[ref] = self._service.background(f"cluster {ref}", run)

    async def _serve(self, ref: ClusterRef, binding: ClusterBinding, previous: asyncio.Task[None] | None) -> None:
        if previous is not None:
            await asyncio.wait([previous])
        with structlog.contextvars.bound_contextvars(tenant=ref.tenant, cluster=ref.cluster):
            log.info("cluster_served", slurmrestd=binding.slurmrestd_url, version=binding.version)
            condition = Condition(ref)
            report = ConditionReport(ref, condition, self._client)
            most = self._settings.placeholders
            opened = open_cluster(ref, binding, self._secrets, condition, max_placeholders=most)
            async with opened as cluster, asyncio.TaskGroup() as tasks:
                tasks.create_task(cluster.keep_privileged())
                tasks.create_task(self._leader.while_leading(lambda: self._watch(cluster)))
                tasks.create_task(self._leader.while_leading(report.run))
                tasks.create_task(self._leader.while_leading(cluster.placeholders.keep))
                async with handlers.serve(self._client, cluster):
                    await asyncio.Event().wait()

    async def _watch(self, cluster: Cluster) -> None:
        settings = self._settings
        intervals = Intervals(settings.poll_seconds, settings.snapshot_seconds, settings.snapshot_margin_seconds)
        watcher = Watcher(cluster, self._client, intervals)
        await watcher.run()
