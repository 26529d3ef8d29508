"""Watches one cluster: keeps what was seen of it as Slurm has it, tells what happened, publishes its queue."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from clusterra_runtime.nats.bus import BusUnavailable, Client
from clusterra_runtime.nats.events import EventPublisher

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.cluster.job_table import JobTable
from clusterra_proxy.slurmrestd.errors import SlurmFailed
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.watch.event_queue import Teller
from clusterra_proxy.watch.job_poll import JobWatch
from clusterra_proxy.watch.node_poll import NodeWatch
from clusterra_proxy.watch.replay import Told, missed, read_told
from clusterra_proxy.watch.snapshot_publisher import SnapshotPublisher

log = structlog.get_logger(__name__)

RETRY_SECONDS = 2.0
QUIET_NODE_LOOKS = 2
"""While nothing waits or drains, the nodes are looked at only every so many times."""


class Watcher:
    """Looks at a cluster every `poll_seconds`.

    A look that fails makes the lists of the next snapshot None; nothing else is ever concluded from it.
    """

    def __init__(self, cluster: Cluster, client: Client, *, poll_seconds: float, quiet_seconds: float) -> None:
        self._cluster = cluster
        self._client = client
        self._poll_seconds = poll_seconds
        self._teller = Teller(EventPublisher(client, "proxy"), cluster.ref)
        self._publisher = SnapshotPublisher(cluster, client, quiet_seconds=quiet_seconds)
        self._jobs = JobWatch(cluster, self._teller)
        self._nodes = NodeWatch(cluster, self._teller)
        self._failing: set[str] = set()
        self._looks = 0

    async def run(self) -> None:
        """Watch, for ever."""
        self._cluster.jobs = JobTable()
        self._cluster.listener = self
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._teller.run())
                tasks.create_task(self._publisher.run())
                await self._look()
                tasks.create_task(self._catch_up())
                tasks.create_task(self._settle())
                while True:
                    await asyncio.sleep(self._poll_seconds)
                    await self._look()
        finally:
            self._cluster.listener = None
            self._cluster.jobs_seen_at = self._cluster.nodes_seen_at = None

    def on_jobs(self, records: tuple[JobRecord, ...]) -> None:
        """Tell what records prove, and publish the queue with them in it."""
        self._jobs.tell(records)
        self._publisher.wake()

    def on_nodes(self) -> None:
        """Tell what the nodes prove, and publish them as they are now."""
        self._nodes.tell()
        self._publisher.wake()

    async def _look(self) -> None:
        if self._publisher.restless or self._looks % QUIET_NODE_LOOKS == 0:
            await asyncio.gather(self._look_at_jobs(), self._look_at_nodes())
        else:
            await self._look_at_jobs()
        self._looks += 1
        self._publisher.wake()

    async def _look_at_jobs(self) -> None:
        if not await self._went_well("jobs", self._jobs.look):
            self._cluster.jobs_seen_at = None
            # It may have been replaced by one that speaks another version.
            self._cluster.controller.forget_version()

    async def _look_at_nodes(self) -> None:
        if not await self._went_well("nodes", self._nodes.look):
            self._cluster.nodes_seen_at = None

    async def _went_well(self, what: str, attempt: Callable[[], Awaitable[None]]) -> bool:
        """Whether it succeeded; the log tells the first failure and the first success after it."""
        try:
            await attempt()
        except SlurmFailed as error:
            if what not in self._failing:
                log.warning("cluster_not_seen", what=what, reason=str(error))
            self._failing.add(what)
            return False
        if what in self._failing:
            log.info("cluster_seen_again", what=what)
        self._failing.discard(what)
        return True

    async def _catch_up(self) -> None:
        told = await self._read_told()
        self._jobs.begin(told.jobs)
        self._nodes.begin(told.nodes)
        await self._until_well("accounting", lambda: self._tell_missed(told))

    async def _tell_missed(self, told: Told) -> None:
        self._jobs.catch_up(await missed(self._cluster, told))

    async def _until_well(self, what: str, attempt: Callable[[], Awaitable[None]]) -> None:
        while True:
            if await self._went_well(what, attempt):
                return
            await asyncio.sleep(RETRY_SECONDS)

    async def _read_told(self) -> Told:
        while True:
            try:
                return await read_told(self._client, self._cluster.ref)
            except BusUnavailable as error:
                log.warning("told_events_not_read", reason=str(error))
                await asyncio.sleep(RETRY_SECONDS)

    async def _settle(self) -> None:
        while True:
            await asyncio.sleep(RETRY_SECONDS)
            await self._went_well("accounting", self._jobs.settle)
