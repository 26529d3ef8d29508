"""Purging: all that streams and buckets hold of one cluster goes, and nothing of another one."""

import json

from clusterra_contracts.bus import subjects, traces
from clusterra_contracts.bus.topology import BOUNDS
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.streams.purge import purge


async def fill(client: Client, ref: ClusterRef) -> None:
    cluster = f"{ref.tenant}.{ref.cluster}"
    for subject in (
        subjects.job_pending(ref),
        subjects.scale_desired(ref),
        subjects.heartbeat(ref),
        subjects.event(ref, "job.running"),
        subjects.edge_event(ref, "worker.lost"),
        subjects.dead_letter(subjects.event(ref, "job.running")),
        subjects.dead_letter(subjects.job_sharded(ref)),
        subjects.dead_letter(subjects.slurm(ref, "submit")),
        f"$KV.registry.{cluster}",
        f"$KV.conditions.{cluster}",
    ):
        await client.jetstream().publish(subject, b"x")


async def held(client: Client, ref: ClusterRef) -> list[str]:
    found: list[str] = []
    for stream in BOUNDS:
        request = json.dumps({"subjects_filter": ">"}).encode()
        answer = await client.request(f"$JS.API.STREAM.INFO.{stream}", request, timeout=5)
        found += json.loads(answer.data)["state"].get("subjects", {})
    return [subject for subject in found if f".{ref.tenant}.{ref.cluster}" in subject]


async def test_everything_of_one_cluster_goes(client: Client, ref: ClusterRef) -> None:
    other = ClusterRef(tenant=ref.cluster, cluster=ref.tenant)
    await fill(client, ref)
    await fill(client, other)

    purged = [
        await purge(client, stream, pattern)
        for stream, patterns in traces.of_cluster(ref).items()
        for pattern in patterns
    ]

    assert sum(purged) == 10
    assert await held(client, ref) == []
    assert len(await held(client, other)) == 10


async def test_a_stream_that_does_not_exist_holds_nothing(client: Client) -> None:
    assert await purge(client, "NOTHING", "event.acme.main.>") == 0
