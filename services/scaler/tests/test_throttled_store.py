"""A store that is too busy gets fewer requests than in normal work, not more; and then all goes on."""

import asyncio
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from clusterra_contracts.identity import ClusterRef
from clusterra_lab.machine.process import start, until
from clusterra_lab.parts.aws import Aws
from clusterra_lab.parts.aws_proxy import AwsProxy, aws_proxy
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.registry import put_binding
from fleet_examples import binding, group
from stand_ins import Neighbours

CLUSTERS = 10
WINDOW_SECONDS = 4.0


def total(proxy: AwsProxy) -> int:
    return proxy.operations.total() + proxy.refused


async def report(clusters: list[Neighbours], jobs: int) -> None:
    """Report so many jobs of a worker each in every cluster."""
    for cluster in clusters:
        cluster.pending = (group(*map(str, range(1, jobs + 1)), cpus=2),)
        await cluster.publish_snapshot()


async def requests_in_a_window(proxy: AwsProxy, clusters: list[Neighbours], jobs: Iterator[int]) -> int:
    """Add a job to every cluster about twice a second, and count the requests to the store."""
    before, ends_at = total(proxy), time.monotonic() + WINDOW_SECONDS
    while time.monotonic() < ends_at:
        await report(clusters, next(jobs))
        await asyncio.sleep(0.4)
    return total(proxy) - before


async def test_a_throttled_store_gets_fewer_requests(
    environment: dict[str, str], emulator: Aws, client: Client, tmp_path: Path
) -> None:
    refs = [ClusterRef(tenant="throttled", cluster=f"c{number}") for number in range(CLUSTERS)]
    for ref in refs:
        await put_binding(client, ref, binding(max_workers=100))
    jobs = count(2)
    clusters = [Neighbours(client, ref) for ref in refs]

    async def decided(workers: int) -> bool:
        states = [await cluster.last_desired() for cluster in clusters]
        return all(state is not None and [t.replicas for t in state.targets or ()] == [workers] for state in states)

    async with aws_proxy(emulator) as proxy:
        variables = {**environment, **proxy.aws.environment()}
        process = await start(
            "scaler", [sys.executable, "-m", "clusterra_scaler"], log=tmp_path / "scaler.log", env=variables
        )
        try:
            await report(clusters, 1)
            await until(lambda: decided(1), seconds=60, what="the first desired states", every=0.2)
            normal = await requests_in_a_window(proxy, clusters, jobs)

            proxy.refused_share = 1.0
            at_first = await requests_in_a_window(proxy, clusters, jobs)
            later = await requests_in_a_window(proxy, clusters, jobs)
            proxy.refused_share = 0.0

            most = next(jobs)
            await report(clusters, most)
            await until(lambda: decided(most), seconds=60, what="the desired states after it", every=0.2)
        finally:
            await process.stop()

    print(f"requests in {WINDOW_SECONDS:g} s: {normal} normally, {at_first} and {later} refused")
    assert later < at_first < normal
    assert later < normal / 2
