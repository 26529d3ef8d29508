"""Pages of what a stream stored from a time on, and the end of a stream."""

from datetime import UTC, datetime, timedelta

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import EVENT
from clusterra_contracts.identity import ClusterRef, TenantRef
from clusterra_runtime.nats import direct
from clusterra_runtime.nats.client import BusUnavailable, Client


async def stored(client: Client, subject: str, count: int) -> None:
    for number in range(count):
        await client.jetstream().publish(subject, str(number).encode())


async def test_a_page_begins_with_what_was_stored_at_a_time_or_later(client: Client, ref: ClusterRef) -> None:
    own, other = subjects.event(ref, "node.down"), f"event.{ref.tenant}-2.main.node.down"
    wanted = subjects.events_of_tenant(TenantRef(tenant=ref.tenant))
    await stored(client, own, 3)
    since = datetime.now(UTC)
    await stored(client, other, 2)
    await stored(client, own, 2)

    page, more = await direct.read_page(client, EVENT.name, wanted, since=since)

    assert [each.body for each in page] == [b"0", b"1"]
    assert not more
    assert all(each.stored_at is not None and each.stored_at >= since for each in page)

    exactly = page[0].stored_at
    assert exactly is not None
    again, _ = await direct.read_page(client, EVENT.name, wanted, since=exactly)
    later, _ = await direct.read_page(client, EVENT.name, wanted, since=exactly + timedelta(microseconds=1))
    everything, _ = await direct.read_page(client, EVENT.name, wanted, since=since - timedelta(days=30))

    assert [each.sequence for each in again] == [each.sequence for each in page]
    assert [each.sequence for each in later] == [page[1].sequence]
    assert len(everything) == 5


async def test_nothing_was_stored_since_a_time_to_come(client: Client, ref: ClusterRef) -> None:
    wanted = subjects.events_of_tenant(TenantRef(tenant=ref.tenant))
    await stored(client, subjects.event(ref, "node.down"), 1)

    page, more = await direct.read_page(client, EVENT.name, wanted, since=datetime.now(UTC) + timedelta(hours=1))

    assert (page, more) == ([], False)


async def test_the_end_of_a_stream_tells_when_it_was_made(client: Client, ref: ClusterRef) -> None:
    before = await direct.stream_end(client, EVENT.name)
    await stored(client, subjects.event(ref, "node.down"), 2)
    after = await direct.stream_end(client, EVENT.name)

    assert after.created == before.created
    assert after.created < datetime.now(UTC)
    assert after.sequence == before.sequence + 2 == await direct.last_sequence(client, EVENT.name)
    with pytest.raises(BusUnavailable, match="not found"):
        await direct.stream_end(client, "NONE")
