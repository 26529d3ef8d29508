"""Two replicas for one cluster: both answer requests, one leads, and the other takes over."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from clusterra_contracts.identity import now
from clusterra_contracts.rpc.slurm import Job, Submitted
from clusterra_lab.machine.process import Process, start, until
from clusterra_runtime.nats.rpc import RpcFailed
from prometheus_client.parser import text_string_to_metric_families
from proxy_world import ProxyWorld, proxy_world, submission
from slurm_world import SlurmWorld


async def metrics(replica: Process) -> dict[str, float]:
    """A replica's metrics, by name and the value of their last label."""
    lines = (line for line in replica.tail(10_000).splitlines() if "service_starting" in line)
    address = json.loads(next(lines))["health"]
    async with aiohttp.ClientSession() as http, http.get(f"http://{address}/metrics") as answer:
        families = text_string_to_metric_families(await answer.text())
        samples = [sample for family in families for sample in family.samples]
    return {" ".join([each.name, *list(each.labels.values())[-1:]]): each.value for each in samples}


@asynccontextmanager
async def second_replica(proxy: ProxyWorld, directory: Path) -> AsyncIterator[Process]:
    """Runs another proxy of the same clusters until the block ends."""
    second = await start(
        "second",
        [sys.executable, "-m", "clusterra_proxy"],
        log=directory / "second.log",
        env={**proxy.nats.environment(), "CLUSTERRA_SECRET_FOLDERS": '["/"]'},
    )
    try:
        await until(lambda: "cluster_served" in second.tail(), seconds=90, what="the second replica", process=second)
        yield second
    finally:
        assert await second.stop(20) == 0


async def test_the_second_replica_takes_over_from_a_killed_leader(
    slurm: SlurmWorld, workers: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    user = slurm.new_user()
    directory = tmp_path_factory.mktemp("replicas")
    async with proxy_world(slurm, directory) as proxy, second_replica(proxy, directory) as second:
        ids = [(await proxy.submit(user, "#!/bin/sh\nsleep 2\n")).job_id for _ in range(6)]
        await proxy.kill()
        killed_at = now()

        # No replica watches now, so the second one asks Slurm for each request. nats-server may not have noticed
        # yet that the first one is gone, and give it a request.
        async def read_first() -> Job | None:
            try:
                return await proxy.job(user, ids[0])
            except RpcFailed:
                return None

        first = await until(read_first, seconds=60, what="an answer of the second replica", process=second)
        held = await proxy.submit(user, key="key-00001", hold=True)
        assert first.state in ("PENDING", "RUNNING", "COMPLETED")
        assert (await proxy.submit(user, key="key-00001", hold=True)).job_id == held.job_id
        assert {job.job_id for job in (await proxy.jobs(user)).jobs} == {*ids, held.job_id}

        await until(
            lambda: proxy.snapshots[-1].taken_at > killed_at, seconds=90, what="the second replica to take over"
        )
        for job_id in ids:
            await proxy.wait_for_end(user, job_id)

        async def all_published() -> bool:
            return len(await proxy.event_lines(*ids, held.job_id)) >= 3 * len(ids) + 1

        await until(all_published, seconds=90, what="all events", every=0.1)
        events = [event for event in await proxy.events("job.*") if event.subject in {*ids, held.job_id}]

        assert Counter(event.kind for event in events) == {
            "job.submitted": len(ids) + 1,
            "job.running": len(ids),
            "job.completed": len(ids),
        }

        await slurm.cluster.run("scancel", held.job_id)


async def test_only_the_replica_that_watches_lists_the_jobs_of_slurmctld(
    slurm: SlurmWorld, workers: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    user = slurm.new_user()
    directory = tmp_path_factory.mktemp("lists")
    async with proxy_world(slurm, directory) as proxy, second_replica(proxy, directory) as second:
        assert proxy.process is not None
        replicas = (proxy.process, second)
        submitted = [(await proxy.submit(user, hold=True)).job_id for _ in range(4)]

        async def lists() -> Counter[str]:
            counted = Counter[str]()
            for replica in replicas:
                counted.update({name: int(count) for name, count in (await metrics(replica)).items()})
            return counted

        async def shielded() -> bool:
            before = await lists()
            pages = await asyncio.gather(*(proxy.jobs(user) for _ in range(40)))
            found = await lists() - before
            return (
                all({job.job_id for job in page.jobs} == set(submitted) for page in pages)
                and found["clusterra_proxy_lists_total own-watch"] > 0
                and found["clusterra_proxy_lists_total watching-replica"] > 0
                and found["clusterra_proxy_lists_total slurmctld"] == 0
            )

        # The new replica first gets its share of the leases, and until then nobody may watch.
        await until(shielded, seconds=90, what="lists from the replica that watches alone", every=0.5)

        first = submission(user, key="key-00002", hold=True)
        keyed = await proxy.call("submit", first, Submitted)

        async def looked() -> bool:
            again = await proxy.call("submit", first, Submitted)
            assert (again.job_id, again.repeated) == (keyed.job_id, True)
            return (await lists())["clusterra_proxy_keys_asked_total"] > 0

        await until(looked, seconds=60, what="a look for the key at the replica that watches", every=0.1)

        await slurm.cluster.run("scancel", *submitted, keyed.job_id)
