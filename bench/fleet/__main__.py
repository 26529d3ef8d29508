"""`make bench-fleet CLUSTERS= JOBS= RUNNING= NODES= MINUTES=`: many small clusters, alone and beside a big one.

Real NATS with the declared streams, the lab's emulator of DynamoDB, and real proxy, scaler, events and edge-agent
processes. slurmrestd is a stand-in with recorded answers. One cluster has a real edge-agent, whose workers only listen;
the other clusters have light edges in this process. Prints one JSON line last.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import JOB
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.scale import DesiredState
from clusterra_lab.machine.progress import Progress, console_progress
from clusterra_lab.machine.secret_file import write_secret
from clusterra_runtime.nats import bus
from clusterra_runtime.store.dynamodb import DynamoDBStore

from fleet.changes import Changes
from fleet.clusters import JOBS_PER_NODE, TENANT, Size, binding, publish, standing
from fleet.edges import LightEdges
from fleet.http_server import http_server
from fleet.recorded import Answers
from fleet.site import Site, site
from fleet.slurmrestd import StandIn
from fleet.use import Use

AGENT = ClusterRef(tenant=TENANT, cluster="agent")
"""The cluster with a real edge-agent."""
BIG = ClusterRef(tenant=TENANT, cluster="big")
KINDS = ("small", "big", "agent")
"""Of clusters."""
SMALL_JOBS = 20
SETTLE_SECONDS = 20.0
LONGEST_WARM_UP_SECONDS = 10.0
"""The longest wait for each cluster's first change: clusters that hardly ever change need no warm-up."""
WARM_SECONDS = 5.0
"""From the first changes until they are measured."""


class Bench:
    """The run: its clusters, and the phases in which they are measured."""

    def __init__(self, arguments: argparse.Namespace, running: Site) -> None:
        self._arguments = arguments
        self._site = running
        self._tasks: set[asyncio.Task[None]] = set()
        answers = Answers()
        self.stand_in = StandIn(answers, lambda cluster: self._changes.told(cluster))
        self._answers = answers
        self._changes = Changes(self.stand_in.queues, arguments.every)
        self._edges = LightEdges(running.client, self._changes.on_registered)

    async def run(self, url: str, store: DynamoDBStore, progress: Progress) -> dict[str, object]:
        """Both phases, and their figures. `url` is that of the stand-in."""
        client, given = self._site.client, self._arguments
        await bus.subscribe(client, "scale.desired.*.*", DesiredState, self._on_desired)
        await bus.subscribe(client, subjects.heartbeat(AGENT), Heartbeat, self._changes.on_heartbeat_of_agent)
        self._start(self._edges.run())
        progress(f"{given.clusters} small clusters")
        await self._add(AGENT, "agent", Size(SMALL_JOBS - 1, 0, 0), url, store)
        for number in range(given.clusters):
            small = Size(0, SMALL_JOBS - 1, -(-(SMALL_JOBS - 1) // JOBS_PER_NODE))
            await self._add(ClusterRef(tenant=TENANT, cluster=f"small-{number}"), "small", small, url, store)
            if number % 50 == 49:
                progress(f"{number + 1} of {given.clusters} small clusters")
        await self._settle(progress)
        # Only now: what happens in the clusters that are there would delay the addition of others.
        for name in self._changes.kinds:
            self._start(self._changes.drive(name))
        await asyncio.sleep(min(given.every, LONGEST_WARM_UP_SECONDS) + WARM_SECONDS)
        phases = {"alone": await self._phase("alone", given.alone_minutes, progress)}
        if given.nodes:
            progress(f"a big cluster: {given.jobs} waiting, {given.running} running, {given.nodes} nodes")
            big = Size(given.jobs, given.running, given.nodes)
            await self._add(BIG, "big", big, url, store)
            await self._first_snapshot(BIG, progress)
            await self._settle(progress)
            self._start(self._changes.drive(BIG.cluster))
            self._start(self._changes.turn_over(BIG.cluster))
            phases["beside"] = await self._phase("beside the big one", given.minutes, progress)
        return summary(phases)

    async def stop(self) -> None:
        """End everything that changes the clusters."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _settle(self, progress: Progress) -> None:
        """Wait until the events of new clusters are archived, which is no steady state, or for some minutes."""
        await asyncio.sleep(SETTLE_SECONDS)
        ends = time.monotonic() + self._arguments.max_settle
        while time.monotonic() < ends and not await self._site.all_archived():
            progress("waiting for the archive")
            await asyncio.sleep(2.0)

    async def _first_snapshot(self, ref: ClusterRef, progress: Progress) -> None:
        """Wait until the proxy has read a whole cluster, which takes a minute and more for a large one."""
        ends = time.monotonic() + self._arguments.max_settle
        while time.monotonic() < ends:
            progress("waiting for the first snapshot of the big cluster")
            found = await bus.last(self._site.client, JOB.name, subjects.job_sharded(ref), QueueSnapshot)
            if found is not None and found[0].running is not None:
                return
            await asyncio.sleep(2.0)

    async def _phase(self, name: str, minutes: float, progress: Progress) -> dict[str, Any]:
        self._changes.measure(KINDS)
        use = await Use.begin(self._site)
        requests, began = self.stand_in.requests.copy(), time.monotonic()
        while (left := began + minutes * 60 - time.monotonic()) > 0:
            progress(f"{name}: {left:.0f} s left")
            await asyncio.sleep(min(left, 5.0))
            use.sample()
            for task in self._tasks:
                if task.done():
                    task.result()
        seconds = time.monotonic() - began
        used, counted, postponed = await use.end(), self.stand_in.requests.copy(), self._changes.postponed
        return {
            "seconds": round(seconds),
            "latencies": await self._latencies(progress),
            "postponed": postponed,
            "requests_per_second": {
                kind: round((count - requests[kind]) / seconds, 1) for kind, count in counted.items()
            },
            **used,
        }

    async def _latencies(self, progress: Progress) -> dict[str, dict[str, float | int | None]]:
        """The figures of the news of this phase, once all of it is answered or given up. The changes go on."""
        latencies = self._changes.latencies
        self._changes.measure(KINDS)
        while not all(each.settled(time.time()) for each in latencies.values()):
            progress("waiting for the answers to the last news")
            await asyncio.sleep(1.0)
        return {kind: each.figures(time.time()) for kind, each in latencies.items()}

    async def _add(self, ref: ClusterRef, kind: str, size: Size, url: str, store: DynamoDBStore) -> None:
        edge = standing(ref, size, self._answers, int(time.time()))
        self._changes.kinds[ref.cluster] = kind
        self.stand_in.queues[ref.cluster] = edge.queue
        if kind != "agent":
            self._edges.edges[ref.cluster] = edge
        key_file = str(self._site.folder / "jwt-key")
        await publish(self._site.client, store, edge, binding(ref, url, key_file, size.nodes or SMALL_JOBS))

    async def _on_desired(self, subject: subjects.Subject, desired: DesiredState) -> None:
        await self._changes.on_desired(subject, desired)
        await self._edges.on_desired(subject, desired)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.create_task(work))


def summary(phases: dict[str, dict[str, Any]]) -> dict[str, object]:
    """The figures that are compared with their bars, before those of each phase."""
    last = phases.get("beside", phases["alone"])
    small, big = last["latencies"]["small"], last["latencies"]["big"]
    return {
        "leases_lost": sum(phase["leases_lost"] for phase in phases.values()),
        "small_p50_ms": small["p50_ms"],
        "small_p99_ms": small["p99_ms"],
        "small_alone_p99_ms": phases["alone"]["latencies"]["small"]["p99_ms"],
        "big_p99_ms": big["p99_ms"],
        **phases,
    }


async def measure(arguments: argparse.Namespace, folder: Path, progress: Progress) -> dict[str, object]:
    """Start everything, run, and stop everything."""
    write_secret(folder / "jwt-key", "0123456789abcdef" * 4)
    started = site(folder, AGENT, arguments.replicas, progress, count_store=arguments.count_store)
    async with started as running:
        # boto3 reads the emulator's address from there.
        os.environ.update(running.aws.environment())
        bench = Bench(arguments, running)
        async with http_server(bench.stand_in.handle) as url, DynamoDBStore(table_prefix="clusterra-") as store:
            try:
                return await bench.run(url, store, progress)
            finally:
                await bench.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=100, help="small clusters, each with 20 jobs")
    parser.add_argument("--jobs", type=int, default=5000, help="waiting jobs of the big cluster")
    parser.add_argument("--running", type=int, help="its running jobs; four for each node by default")
    parser.add_argument("--nodes", type=int, default=500, help="its nodes; 0: there is no big cluster")
    parser.add_argument("--minutes", type=float, default=3.0, help="minutes beside the big cluster")
    parser.add_argument("--alone-minutes", type=float, default=2.0, help="minutes before it comes")
    parser.add_argument(
        "--max-settle", type=float, default=180.0, help="most seconds to wait for the archive of events"
    )
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two changes of a cluster")
    parser.add_argument("--replicas", type=int, default=1, help="replicas of proxy and scaler")
    parser.add_argument("--count-store", action="store_true", help="count the operations of DynamoDB, which takes CPU")
    parser.add_argument("--folder", type=Path, help="keep logs and state in this new folder")
    arguments = parser.parse_args()
    if arguments.running is None:
        arguments.running = JOBS_PER_NODE * arguments.nodes
    with ExitStack() as opened:
        folder = arguments.folder or Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="bench-fleet-")))
        folder.mkdir(parents=True, exist_ok=True)
        figures = asyncio.run(measure(arguments, folder, opened.enter_context(console_progress())))
    given = {name: getattr(arguments, name) for name in ("clusters", "jobs", "running", "nodes", "every", "replicas")}
    print(json.dumps({**figures, "given": given}))


if __name__ == "__main__":
    main()
