"""Serves all clusters in the registry: opens, replaces and closes them as their bindings change."""

import asyncio
from contextlib import suppress
from functools import partial

import structlog
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.nats.binding import InvalidBinding, check_binding
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.outbound import Outbound
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.service import Service

from clusterra_proxy.cluster.cluster import Cluster, open_cluster
from clusterra_proxy.cluster.condition import Condition
from clusterra_proxy.cluster.slurm_owners import FIRST_SECONDS, SlurmOwners
from clusterra_proxy.requests import handlers
from clusterra_proxy.requests.actions import Actions
from clusterra_proxy.requests.rest.reads import RestReads
from clusterra_proxy.requests.rest.shared_lists import SharedLists
from clusterra_proxy.settings import Settings
from clusterra_proxy.shards import CLUSTERS, Shards
from clusterra_proxy.supervision import Supervisor
from clusterra_proxy.watch.condition_report import ConditionReport
from clusterra_proxy.watch.cost_notes import CostNotes
from clusterra_proxy.watch.intervals import Intervals
from clusterra_proxy.watch.pace import Pace
from clusterra_proxy.watch.watcher import Watcher

log = structlog.get_logger(__name__)


class Clusters:
    """Runs one background task per cluster. A changed binding ends its task and starts another.

    Every replica answers requests. Only the replica that leads a cluster's shard watches the cluster, keeps its
    placeholders and reports its condition. No failure of a cluster's work ends the process, or the work for another.
    """

    def __init__(self, service: Service, client: Client, settings: Settings, shards: Shards, secrets: Secrets) -> None:
        self._service = service
        self._client = client
        self._settings = settings
        self._shards = shards
        self._secrets = secrets
        self._pace = Pace(settings.poll_seconds)
        self._owners = SlurmOwners()
        self._tasks: dict[ClusterRef, asyncio.Task[None]] = {}

    def follow(self, registry: Registry) -> None:
        """Serve all clusters of a registry now, and follow its changes."""

        def on_change(ref: ClusterRef, binding: ClusterBinding | None) -> None:
            self._on_binding(ref, binding, registry.unreadable.get(ref, ""))

        for ref in registry.clusters.keys() | registry.unreadable.keys():
            on_change(ref, registry.get(ref))
        registry.on_change.append(on_change)

    def _on_binding(self, ref: ClusterRef, binding: ClusterBinding | None, unreadable: str) -> None:
        previous = self._tasks.pop(ref, None)
        if previous is not None:
            previous.cancel()
        if binding is None and not unreadable:
            self._owners.forget(ref)
        else:
            run = partial(self._keep, ref, binding, unreadable, previous)
            self._tasks[ref] = self._service.background(f"cluster {ref}", run)

    async def _keep(
        self,
        ref: ClusterRef,
        binding: ClusterBinding | None,
        unreadable: str,
        previous: asyncio.Task[None] | None,
    ) -> None:
        """Serve a cluster as long as this binding holds, whatever fails."""
        if previous is not None:
            await _ended(previous)
        condition = Condition(ref)
        supervisor = Supervisor(condition)
        usable, problem = _usable(binding, unreadable)
        with structlog.contextvars.bound_contextvars(tenant=ref.tenant, cluster=ref.cluster):
            async with asyncio.TaskGroup() as tasks:
                reporting = partial(supervisor.run, "report", partial(self._report, ref, condition, problem))
                tasks.create_task(self._shards.while_leading(ref, reporting))
                if usable is not None:
                    tasks.create_task(supervisor.run("serve", partial(self._serve, ref, usable, condition, supervisor)))

    async def _serve(
        self, ref: ClusterRef, binding: ClusterBinding, condition: Condition, supervisor: Supervisor
    ) -> None:
        log.info("cluster_served", slurmrestd=binding.slurmrestd_url, version=binding.version)
        opened = open_cluster(
            ref,
            binding,
            self._secrets,
            condition,
            max_placeholders=self._settings.placeholders,
            outbound=Outbound(self._settings.outbound_allowed),
            mails=bool(self._settings.mail_from),
        )
        async with opened as cluster, asyncio.TaskGroup() as tasks:
            lists = SharedLists(cluster)
            rest = RestReads(lists)
            watching = partial(supervisor.run, "watch", partial(self._watch, cluster, rest))
            keep = partial(
                cluster.placeholders.keep,
                lambda: self._pace.placeholder_seconds,
                self._pace.sleep,
                lambda: cluster.nodes_version,
            )
            keeping = partial(supervisor.run, "placeholders", keep)
            asked = asyncio.Event()
            tasks.create_task(supervisor.run("identity", partial(self._owners.keep, cluster, asked)))
            with suppress(TimeoutError):
                async with asyncio.timeout(FIRST_SECONDS):
                    await asked.wait()
            tasks.create_task(supervisor.run("privileged names", cluster.keep_privileged))
            tasks.create_task(self._shards.while_leading(ref, watching))
            tasks.create_task(self._shards.while_leading(ref, keeping))
            actions = Actions(self._client, cluster)
            tasks.create_task(supervisor.run("actions", actions.run))
            try:
                async with handlers.serve(self._client, cluster, actions, rest):
                    await asyncio.Event().wait()
            finally:
                await lists.close()

    async def _report(self, ref: ClusterRef, condition: Condition, problem: str) -> None:
        condition.keep()
        if problem:
            condition.degrade("binding_invalid", problem)
        else:
            condition.recover("binding_invalid")
        await ConditionReport(ref, condition, self._client).run()

    async def _watch(self, cluster: Cluster, rest: RestReads) -> None:
        settings = self._settings
        intervals = Intervals(self._pace, settings.snapshot_seconds, settings.snapshot_margin_seconds)
        watcher = Watcher(cluster, self._client, intervals)
        notes = CostNotes(cluster, self._client, settings.cost_note_seconds)
        async with handlers.serve_watched(self._client, cluster, rest), asyncio.TaskGroup() as tasks:
            with CLUSTERS.track_inprogress(), self._pace.watched():
                tasks.create_task(notes.run())
                await watcher.run()


async def _ended(task: asyncio.Task[None]) -> None:
    """Wait for the end of a task, also when cancelled: whoever replaces the waiting one counts on it."""
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _usable(binding: ClusterBinding | None, unreadable: str) -> tuple[ClusterBinding | None, str]:
    """Return the binding to work with, if there is one, and what is wrong with the newest one."""
    if binding is None:
        return None, unreadable
    try:
        check_binding(binding)
    except InvalidBinding as error:
        return None, str(error)
    return binding, f"{unreadable}; version {binding.version} is in use" if unreadable else ""
