"""From when on the narrow views are whole: since no replica of an earlier release archives beside this one."""

from collections.abc import AsyncIterator

import pytest
from clusterra_contracts.bus.envelope import encode
from clusterra_contracts.versions import CONTRACTS, Announcement
from clusterra_events.archive_table import ARCHIVE
from clusterra_events.archive_views import NARROW_FORM as FORM
from clusterra_events.whole_views import AHEAD_SECONDS, MAX_UNWATCHED_SECONDS, RENEW_SECONDS, WholeViews
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.store.memory_store import MemoryStore

START = 1_800_000_000.0


class Clock:
    """A time that the test sets."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def client(nats: NatsServer) -> AsyncIterator[Client]:
    client = await bus.connect(nats.settings(), "events")
    yield client
    await bus.close(client)


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    async with MemoryStore() as store:
        await store.create_tables(ARCHIVE)
        yield store


async def announce(client: Client, instance: str, *, record_form: int) -> None:
    own = Announcement(
        service="events",
        instance=instance,
        software="1",
        contracts=CONTRACTS,
        working=True,
        record_form=record_form,
    )
    body, headers = encode(own)
    await client.jetstream().publish(f"$KV.versions.{own.key}", body, headers=headers, msg_ttl=300)


async def test_the_views_are_whole_from_the_time_at_which_every_replica_writes_them(
    client: Client, store: MemoryStore
) -> None:
    clock = Clock()
    views = WholeViews(store, ARCHIVE, client, "events", clock)
    await announce(client, "new", record_form=FORM)
    await announce(client, "old", record_form=0)

    await views.check()
    clock.now += 3600
    await views.check()
    during_the_update = views.whole_from
    await client.jetstream().purge_stream("KV_versions", subject="$KV.versions.events.old")
    for _ in range(10):
        clock.now += RENEW_SECONDS + 1
        await views.check()

    assert during_the_update == views.whole_from == START + 3600 + AHEAD_SECONDS


async def test_an_earlier_release_that_worked_alone_moves_the_time(client: Client, store: MemoryStore) -> None:
    clock = Clock()
    await announce(client, "new", record_form=FORM)
    await WholeViews(store, ARCHIVE, client, "events", clock).check()

    clock.now += MAX_UNWATCHED_SECONDS - 1
    started_again = WholeViews(store, ARCHIVE, client, "events", clock)
    await started_again.check()
    soon = started_again.whole_from
    clock.now += MAX_UNWATCHED_SECONDS + 1
    after_a_rollback = WholeViews(store, ARCHIVE, client, "events", clock)
    await after_a_rollback.check()

    assert soon == START + AHEAD_SECONDS
    assert after_a_rollback.whole_from == clock.now + AHEAD_SECONDS


async def test_without_announcements_nothing_is_whole_yet(client: Client, store: MemoryStore) -> None:
    clock = Clock()
    views = WholeViews(store, ARCHIVE, client, "events", clock)

    await views.check()
    clock.now += 3 * AHEAD_SECONDS
    await views.check()

    assert views.whole_from == clock.now + AHEAD_SECONDS
