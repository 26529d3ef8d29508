"""Tests of webhooks and their delivery logs, asked for over the bus; and what is kept of deliveries."""

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import DLQ
from clusterra_contracts.events import AdminFact, Event
from clusterra_contracts.identity import now
from clusterra_contracts.rpc import webhooks as rpc
from clusterra_contracts.rpc.webhooks import Attempt, Delivery, DeliveryPage, ReadDeliveries
from clusterra_events.webhooks.progress import progress_of
from clusterra_events.webhooks.state_table import DELIVERIES, KEPT_SECONDS, MOST_ENTRIES, DeliveryRecords
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats.direct import Stored, replay
from clusterra_runtime.nats.rpc import RpcFailed, call
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.page import Page
from clusterra_runtime.store.store import ConditionFailed
from standardwebhooks.webhooks import Webhook as Standard

from .webhook_world import GUARD_SECONDS, REF, TENANT, World, deliver_from, receiver, webhook_at, world


@pytest.fixture
async def acme(nats: NatsServer) -> AsyncIterator[World]:
    async with world(nats) as found:
        yield found


@pytest.fixture
async def records() -> AsyncIterator[DeliveryRecords]:
    async with MemoryStore() as store:
        await store.create_tables(DELIVERIES)
        yield DeliveryRecords(store)


def entry(number: int, *, delivered: bool = True) -> Delivery:
    return Delivery(
        message_id=f"msg_{number}",
        event_id=str(number),
        kind="node.down",
        cluster="main",
        subject="n1",
        time=now(),
        attempts=1,
        last=Attempt(delivered=delivered, status=200 if delivered else 500, seconds=0.1),
    )


async def test_a_test_is_one_signed_request_and_in_no_log(acme: World) -> None:
    statuses = iter([200, 500])
    async with receiver(lambda _: next(statuses)) as hook, acme.delivering():
        webhook = webhook_at(hook.url, enabled=False)
        request, subject = rpc.TestWebhook(webhook=webhook), subjects.webhook_test(TENANT)
        first = await call(acme.client, subject, request, Attempt, timeout_seconds=15)
        second = await call(acme.client, subject, request, Attempt, timeout_seconds=15)
        page = await deliveries(acme, webhook.id)

    assert (first.delivered, first.status, first.problem) == (True, 200, "")
    assert (second.delivered, second.status) == (False, 500)
    assert page.deliveries == ()
    for taken in hook.taken:
        Standard(webhook.secrets[0].text).verify(taken.body, taken.headers)
        event = Event.model_validate_json(taken.body)
        assert event.source == "/clusterra/events/acme/main"
        assert isinstance(event.data, AdminFact)
        assert (event.kind, event.subject) == ("webhook.test", webhook.id)
    assert len({taken.message for taken in hook.taken}) == 2


async def test_a_test_of_a_refused_address_says_why(acme: World) -> None:
    async with acme.delivering():
        webhook = webhook_at("https://10.0.0.1/secret")
        request = rpc.TestWebhook(webhook=webhook)
        found = await call(acme.client, subjects.webhook_test(TENANT), request, Attempt, timeout_seconds=15)

    assert (found.delivered, found.status, found.problem) == (False, None, "the address is not a public one")


async def test_a_test_that_cannot_be_read_is_no_dead_letter(acme: World) -> None:
    """It holds the secrets and the address, and comes from a gateway of another release."""
    async with acme.delivering():
        webhook = webhook_at("https://hooks.example.com/the-token")
        request = rpc.TestWebhook(webhook=webhook).model_dump(mode="json")
        request["webhook"]["deliver_from"] = "of a newer release"
        answer = await acme.client.request(subjects.webhook_test(TENANT), json.dumps(request).encode(), timeout=15)
        await acme.client.request(subjects.webhook_deliveries(TENANT), b"{}", timeout=15)

        async def buried() -> list[Stored]:
            return [each async for each in replay(acme.client, DLQ.name, ">")]

        (letter,) = await until(buried, seconds=GUARD_SECONDS, what="the dead letter of the other request")

    assert b"invalid" in answer.data
    assert b"the-token" not in letter.body + answer.data
    assert webhook.secrets[0].text.encode() not in letter.body + answer.data


async def deliveries(acme: World, webhook_id: str, **options: object) -> DeliveryPage:
    request = ReadDeliveries.model_validate({"webhook_id": webhook_id, **options})
    return await call(acme.client, subjects.webhook_deliveries(TENANT), request, DeliveryPage, timeout_seconds=15)


async def test_the_log_is_read_in_pages_and_without_what_was_delivered(acme: World) -> None:
    statuses = {f"n{number}": 200 for number in range(1, 12)}
    async with receiver(statuses) as hook, acme.delivering() as webhooks:
        webhook = webhook_at(hook.url)
        await acme.put(webhook)
        await acme.publish(range(1, 12))
        await acme.logged(webhooks, webhook, 11)
        first = await deliveries(acme, webhook.id, limit=7)
        second = await deliveries(acme, webhook.id, limit=7, cursor=first.cursor)
        failed = await deliveries(acme, webhook.id, failed_only=True)
        with pytest.raises(RpcFailed, match="does not belong to this list"):
            await deliveries(acme, webhook.id, cursor="other")
        await acme.put(webhook.model_copy(update={"enabled": False}))
        stopped = await deliveries(acme, webhook.id)

    found = [*first.deliveries, *second.deliveries]
    assert [each.message_id for each in found] == [each.message for each in reversed(hook.taken)]
    assert len(first.deliveries) == 7
    assert second.cursor is None
    assert (failed.deliveries, failed.state) == ((), "working")
    assert (stopped.state, stopped.disabled_reason) == ("disabled", "an admin has disabled it")
    assert REF.cluster == found[0].cluster


@pytest.mark.parametrize("count", [0, 1, MOST_ENTRIES - 1, MOST_ENTRIES, MOST_ENTRIES + 1, 2 * MOST_ENTRIES + 500])
async def test_the_last_entries_are_kept_and_no_more(records: DeliveryRecords, count: int) -> None:
    for number in range(count):
        await records.log("acme", "wh_1", number, entry(number))

    # The next entry is not there yet, or is that of an event that is tried again.
    found = [number async for number, _ in records.newest("acme", "wh_1", count)]

    oldest = max(count - MOST_ENTRIES + 1, 0)
    assert found == list(range(count - 1, oldest - 1, -1))
    assert (await records._store.scan(DELIVERIES, limit=10_000)).cursor is None
    assert len((await records._store.scan(DELIVERIES, limit=10_000)).items) == min(count, MOST_ENTRIES)


async def test_a_page_reads_little_more_of_the_log_than_it_shows(acme: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of webhooks asks for the state of each one."""
    read, query = list[int](), acme.store.query

    async def counting(*of: Any, **options: Any) -> Page:
        page = await query(*of, **options)
        read.append(len(page.items))
        return page

    async with acme.delivering() as webhooks:
        webhook = webhook_at("https://hooks.example.com/", enabled=False)
        await acme.put(webhook)
        for number in range(500):
            await webhooks.records.log(REF.tenant, webhook.id, number, entry(number))
        kept = await webhooks.records.progress(REF.tenant, webhook.id)
        progress = progress_of(None, webhook.deliver_from).model_copy(update={"logged": 500})
        await webhooks.records.keep(REF.tenant, webhook.id, progress, kept)
        monkeypatch.setattr(acme.store, "query", counting)
        page = await acme.page(webhooks, webhook, limit=1)

    assert [each.event_id for each in page.deliveries] == ["499"]
    assert page.cursor == "498"
    assert sum(read) <= 10


async def test_an_entry_is_replaced_by_its_later_state_and_expires() -> None:
    at = [time.time()]
    async with MemoryStore(clock=lambda: at[0]) as store:
        await store.create_tables(DELIVERIES)
        records = DeliveryRecords(store, clock=lambda: at[0])
        await records.log("acme", "wh_1", 0, entry(0, delivered=False))
        await records.log("acme", "wh_1", 0, entry(0))
        ((_, found),) = [each async for each in records.newest("acme", "wh_1", 1)]
        assert found.last.delivered

        at[0] += KEPT_SECONDS + 1

        assert [each async for each in records.newest("acme", "wh_1", 1)] == []


async def test_of_two_who_move_the_progress_one_fails(records: DeliveryRecords) -> None:
    kept = await records.progress("acme", "wh_1")
    progress = progress_of(None, deliver_from())
    await records.keep("acme", "wh_1", progress, kept)

    with pytest.raises(ConditionFailed):
        await records.keep("acme", "wh_1", progress, kept)
