"""The registry: it follows the bucket over deletions, garbage and outages."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from clusterra_contracts.identity import ClusterRef, SlurmUser
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.shapes import Catalogue, Shape
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import Stored, last, replay
from clusterra_runtime.nats.registry import Registry, delete_binding, put_binding
from clusterra_runtime.settings import ServiceSettings

from .conftest import connected

SHAPE = Shape(name="general-small", family="general", size="small", vcpu=4, memory_gib=16, usd_per_hour=0.16)


def binding(version: int = 1) -> ClusterBinding:
    return ClusterBinding(
        name="Genomics",
        slurmrestd_url="http://127.0.0.1:6820",
        jwt_key="file:/run/secrets/jwt.key",
        operator=SlurmUser(name="clusterra-operator", uid=64031, gid=64031),
        catalogue=Catalogue(shapes=(SHAPE,)),
        version=version,
    )


@pytest.fixture
async def registry(client: Client) -> AsyncIterator[Registry]:
    registry = Registry()
    await registry.start(client)
    yield registry
    await registry.stop()


async def test_the_registry_follows_writes_and_deletions(client: Client, registry: Registry, ref: ClusterRef) -> None:
    changes: list[int | None] = []

    def changed(about: ClusterRef, found: ClusterBinding | None) -> None:
        if about == ref:
            changes.append(found.version if found else None)

    registry.on_change.append(changed)
    await put_binding(client, ref, binding(1))
    await until(lambda: registry.get(ref) == binding(1), seconds=90, what="the first version")
    await put_binding(client, ref, binding(2))
    await until(lambda: registry.get(ref) == binding(2), seconds=90, what="the second version")
    await delete_binding(client, ref)
    await until(lambda: ref not in registry.clusters, seconds=90, what="its removal")

    assert changes == [1, 2, None]


async def test_an_older_binding_replaces_no_newer_one_unless_it_is_told_to(
    client: Client, registry: Registry, ref: ClusterRef
) -> None:
    assert await put_binding(client, ref, binding(2))
    assert not await put_binding(client, ref, binding(1))
    await until(lambda: registry.get(ref) == binding(2), seconds=90, what="the newer version")

    assert await put_binding(client, ref, binding(1), over_newer=True)

    await until(lambda: registry.get(ref) == binding(1), seconds=90, what="the older version")


async def test_of_writers_at_the_same_time_the_newest_version_stays(client: Client, ref: ClusterRef) -> None:
    await asyncio.gather(*(put_binding(client, ref, binding(version)) for version in (3, 1, 4, 2)))

    found = await last(client, "KV_registry", f"$KV.registry.{ref.key}", ClusterBinding)

    assert found is not None
    assert found[0].version == 4


async def test_a_removed_cluster_is_written_again(client: Client, registry: Registry, ref: ClusterRef) -> None:
    await put_binding(client, ref, binding(7))
    await delete_binding(client, ref)

    assert await put_binding(client, ref, binding(1))

    await until(lambda: registry.get(ref) == binding(1), seconds=90, what="the new cluster")


async def test_the_registry_starts_with_the_existing_bindings(
    settings: ServiceSettings, client: Client, ref: ClusterRef
) -> None:
    removed = ClusterRef(tenant=ref.tenant, cluster="removed")
    await put_binding(client, ref, binding())
    await put_binding(client, removed, binding())
    await delete_binding(client, removed)
    registry = Registry()
    await registry.start(client)

    assert registry.get(ref) == binding()
    assert removed not in registry.clusters

    await registry.stop()


async def test_a_cluster_with_a_garbage_entry_keeps_its_last_valid_binding(
    client: Client, registry: Registry, ref: ClusterRef
) -> None:
    await put_binding(client, ref, binding())
    await until(lambda: registry.get(ref), seconds=90, what="the binding")
    await client.publish(f"$KV.registry.{ref.key}", b'{"name": 7}')
    await client.publish("$KV.registry.NO.such", b"{}")

    async def dead_letters() -> list[Stored]:
        found = [letter async for letter in replay(client, "DLQ", "dlq.$KV.registry.>")]
        buried = {f"dlq.$KV.registry.{ref.key}", "dlq.$KV.registry.NO.such"}
        return found if buried <= {letter.subject for letter in found} else []

    await until(dead_letters, seconds=90, what="two dead dead_letters")

    assert registry.get(ref) == binding()
    assert await put_binding(client, ref, binding())
    await until(lambda: ref not in registry.unreadable, seconds=90, what="the entry to be replaced")


async def test_an_exception_of_a_callback_does_not_affect_others(
    client: Client, registry: Registry, ref: ClusterRef
) -> None:
    received: list[ClusterRef] = []

    def broken(_ref: ClusterRef, _binding: ClusterBinding | None) -> None:
        raise RuntimeError("not today")

    registry.on_change += [broken, lambda about, _binding: received.append(about)]
    await put_binding(client, ref, binding())
    await until(lambda: ref in received, seconds=90, what="the second callback")


async def test_the_registry_reads_missed_bindings_after_a_reconnect(server: NatsServer, ref: ClusterRef) -> None:
    async with connected(ServiceSettings(nats_url=server.url)) as client:
        registry = Registry()
        await registry.start(client)
        await put_binding(client, ref, binding(1))
        await until(lambda: registry.get(ref), seconds=90, what="the first version")
        await server.kill()
        await until(lambda: not client.is_connected, seconds=90, what="the lost connection")
        await server.restart()
        async with connected(ServiceSettings(nats_url=server.url), "gateway") as gateway:
            await put_binding(gateway, ref, binding(2))
        await until(lambda: registry.get(ref) == binding(2), seconds=90, what="the second version")
        await registry.stop()


async def test_a_recreated_bucket_is_read_again(server: NatsServer, ref: ClusterRef) -> None:
    other = ClusterRef(tenant=ref.tenant, cluster="c2")
    async with connected(ServiceSettings(nats_url=server.url)) as client:
        registry = Registry()
        await put_binding(client, ref, binding(1))
        await put_binding(client, ref, binding(2))
        await registry.start(client)
        jetstream = client.jetstream()
        kept = (await jetstream.stream_info("KV_registry")).config
        await jetstream.delete_stream("KV_registry")
        await jetstream.add_stream(kept)
        await put_binding(client, other, binding(1))
        await client.force_reconnect()
        await until(lambda: registry.get(other), seconds=90, what="the new bucket's cluster")
        await until(lambda: registry.get(ref) is None, seconds=90, what="the old cluster's end")
        await registry.stop()
