"""The archive forgets a cluster that is deleted, in bounded pages, and nothing of another one."""

from clusterra_contracts.identity import ClusterRef
from clusterra_events.archive import Archive
from clusterra_events.retention import Retention
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.store import Delete

from .test_archive import ACME, RIVAL, TABLE, event, job, keep, node

EVENTS = [event(job("job.running", str(number)), seconds=number) for number in range(1, 8)]


async def keys(store: MemoryStore, ref: ClusterRef) -> list[str]:
    page = await store.scan(TABLE, limit=1000)
    return [item.key.pk for item in page.items if ref.key in item.key.pk]


async def test_nothing_of_the_cluster_is_left_after_the_last_page() -> None:
    async with MemoryStore() as store:
        await store.create_tables(TABLE)
        archive = Archive(store, TABLE, retention=Retention(3600))
        await keep(archive, *EVENTS, event(node("node.down", "w1")))
        await keep(archive, event(job("job.running", "1"), ref=RIVAL), ref=RIVAL)
        rivals = await keys(store, RIVAL)

        removed = [await archive.forget(ACME, 3) for _ in range(4)]

        assert removed == [3, 3, 2, 0]
        assert await keys(store, ACME) == []
        assert await keys(store, RIVAL) == rivals


async def test_a_removal_that_was_cut_off_is_completed() -> None:
    async with MemoryStore() as store:
        await store.create_tables(TABLE)
        archive = Archive(store, TABLE, retention=Retention(3600))
        await keep(archive, *EVENTS)
        page = await store.scan(TABLE, limit=1000)
        for item in page.items[::2]:
            if not item.key.pk.endswith("#time"):
                await store.delete(Delete(TABLE, item.key))

        assert await archive.forget(ACME, 100) == len(EVENTS)

        assert await keys(store, ACME) == []
