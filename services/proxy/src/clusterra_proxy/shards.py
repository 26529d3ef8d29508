"""This replica's share of the clusters: it watches those of the shards whose leases it holds.

Two watching replicas would publish every event twice and poll Slurm twice. A lease is a key in a NATS KV bucket
(`clusterra_runtime.nats.lease`), which expires when its holder stops renewing it. `subjects.job_shard` maps a
cluster to its shard. Requests are answered by every replica, whatever it holds.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.subjects import SHARD_COUNT
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats.lease_terms import Lease
from clusterra_runtime.turns import Turns
from prometheus_client import Gauge

from clusterra_proxy.requests.in_flight import InFlight

CLUSTERS = Gauge("clusterra_proxy_clusters", "Clusters that this replica watches")
SHARDS = Gauge("clusterra_proxy_partitions", "Shards whose clusters this replica watches")


class Shards:
    """Runs the work for the clusters of the leased shards."""

    def __init__(self) -> None:
        turns = Turns()
        self._shards = tuple(_Shard(turns) for _ in range(SHARD_COUNT))

    async def lead(self, lease: Lease) -> None:
        """Work for the clusters of a shard until cancelled. This is the work of its lease.

        The lease is released only after all of it has ended.
        """
        with SHARDS.track_inprogress():
            await self._shards[lease.shard].lead()

    async def while_leading(self, ref: ClusterRef, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run something from each beginning of the lease of a cluster's shard until its end, forever.

        Raises what it raises.
        """
        await self._shards[subjects.job_shard(ref)].while_leading(run)


class _Shard:
    """One shard, whose lease this replica may hold."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._begun = asyncio.Event()
        self._ended = asyncio.Event()
        self._in_flight = InFlight()

    async def lead(self) -> None:
        self._ended.clear()
        self._begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self._begun.clear()
            self._ended.set()
            await self._in_flight.wait_until_empty()

    async def while_leading(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            await self._begun.wait()
            # The work for all clusters of a shard begins at the same time.
            await self._turns.take()
            if self._begun.is_set():
                with self._in_flight:
                    await self._run_until_ended(run)

    async def _run_until_ended(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task, ended = asyncio.create_task(run()), asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            task.cancel()
            ended.cancel()
            await asyncio.gather(task, ended, return_exceptions=True)
