"""A large cluster's decisions beside small clusters, with real scaler processes, NATS and an emulator of DynamoDB."""

import json
import sys
import time
from pathlib import Path

from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.queue import NodeState, PendingJobs, RunningJob
from clusterra_contracts.scale import DesiredState
from clusterra_lab.machine.process import start, until
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.lease_terms import Pace
from clusterra_runtime.nats.registry import put_binding
from fleet_examples import binding, group, node, running
from stand_ins import Neighbours, neighbours, tell_large

NODES = 4_000
GROUPS = 4_000
JOBS_EACH = 10
MIN_SMALL_DECISIONS = 5
"""How often a small cluster is decided at least while the large one's decision is made. If it waited: once."""


def large_queue() -> tuple[tuple[PendingJobs, ...], tuple[RunningJob, ...], dict[str, NodeState]]:
    """Pending jobs of many resource vectors beside busy nodes."""
    pending = tuple(
        group(
            *(str(10_000_000 + JOBS_EACH * number + each) for each in range(JOBS_EACH)),
            cpus=1 + number % 31,
            memory_per_node_mib=1024 + number,
            uid=20001 + number % 50,
        )
        for number in range(GROUPS)
    )
    names = [f"general-large-{number}" for number in range(NODES)]
    jobs = tuple(
        running(str(1 + 4 * number + each), name, cpus=3, uid=20001 + number % 50)
        for number, name in enumerate(names)
        for each in range(4)
    )
    return pending, jobs, {name: node(name, used=12) for name in names}


def events(log: Path, event: str) -> list[dict[str, object]]:
    lines = [line for line in log.read_text().splitlines() if line.startswith("{")]
    return [entry for line in lines if (entry := json.loads(line)).get("event") == event]


async def until_decided(cluster: Neighbours, jobs: int) -> None:
    """Submit another job to a small cluster and wait for the worker that it needs."""
    before = len(cluster.desired)
    cluster.pending = (group(*map(str, range(1, jobs + 1)), cpus=2),)
    await cluster.publish_snapshot()

    def bought() -> DesiredState | None:
        newer = [each for each in cluster.desired[before:] if each.targets and each.targets[0].replicas == jobs]
        return newer[-1] if newer else None

    await until(bought, seconds=60, what=f"{jobs} workers", every=0.005)


async def test_a_long_decision_loses_no_lease_and_delays_no_neighbour(
    environment: dict[str, str], client: Client, ref: ClusterRef, tmp_path: Path
) -> None:
    small_ref = ClusterRef(tenant=f"{ref.tenant}s", cluster="c1")
    await put_binding(client, ref, binding(name="packing", max_workers=60_000))
    await put_binding(client, small_ref, binding(max_workers=1000))
    log = tmp_path / "scaler.log"
    process = await start("scaler", [sys.executable, "-m", "clusterra_scaler"], log=log, env=environment)
    try:
        async with neighbours(client, ref) as large, neighbours(client, small_ref) as small:
            await until_decided(small, 1)
            large.pending, large.running, large.nodes = large_queue()
            await large.publish_snapshot()
            published = time.monotonic()
            jobs, meanwhile = 1, 0
            while not large.desired or time.monotonic() - published < Pace().ttl_seconds:
                jobs += 1
                await until_decided(small, jobs)
                meanwhile += not large.desired

            assert meanwhile >= MIN_SMALL_DECISIONS
            assert events(log, "lease_ended") == []
            assert events(log, "lease_not_renewed") == []
            assert len(large.desired) == 1
    finally:
        await process.stop()


async def test_a_queue_in_parts_is_decided_also_by_a_scaler_that_starts_later(
    environment: dict[str, str], client: Client, ref: ClusterRef, tmp_path: Path
) -> None:
    await put_binding(client, ref, binding())
    async with neighbours(client, ref) as cluster:
        await tell_large(client, ref, group("1", "2", cpus=2))
        log = tmp_path / "scaler.log"
        process = await start("scaler", [sys.executable, "-m", "clusterra_scaler"], log=log, env=environment)
        try:
            await until(lambda: bool(cluster.desired), seconds=60, what="a desired state from the stored parts")
            assert (cluster.desired[-1].targets or ())[0].replicas == 2

            await tell_large(client, ref, group("1", "2", "3", cpus=2))
            await until(lambda: len(cluster.desired) > 1, seconds=60, what="a desired state from new parts")
            assert (cluster.desired[-1].targets or ())[0].replicas == 3
        finally:
            await process.stop()
