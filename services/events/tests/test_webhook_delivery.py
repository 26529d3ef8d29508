"""Events reach receivers on loopback, in order: once where all is well, and at least once whatever fails."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import override

import pytest
import structlog.testing
from aiohttp import web
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.permissions import central_service, control_plane
from clusterra_contracts.bus.topology import EVENT
from clusterra_contracts.events import AdminFact, Event
from clusterra_contracts.identity import now
from clusterra_contracts.webhooks import WebhookSecret
from clusterra_events.webhooks import delivery, progress, sweep
from clusterra_events.webhooks.delivery import Target, Visited
from clusterra_events.webhooks.formats import FormatSender
from clusterra_events.webhooks.posting.poster import MAX_ANSWER_BYTES
from clusterra_events.webhooks.state_table import DELIVERIES
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer, nats_server
from clusterra_runtime.nats import bus, topology
from clusterra_runtime.nats.direct import replay
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.store import Put, StoreUnavailable, Table, Update
from clusterra_runtime.store.webhook_records import WEBHOOKS
from standardwebhooks.webhooks import Webhook as Standard

from .webhook_world import (
    GUARD_SECONDS,
    LOOPBACK,
    REF,
    World,
    deliver_from,
    new_secret,
    receiver,
    webhook_at,
    world,
)


@pytest.fixture
async def acme(nats: NatsServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(progress, "FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(progress, "LONGEST_PAUSE_SECONDS", 0.1)
    async with world(nats) as found:
        yield found


async def records(acme: World) -> list[Item]:
    """All that is kept of deliveries."""
    return list((await acme.store.scan(DELIVERIES, limit=10_000)).items)


def names(numbers: range) -> list[str]:
    return [f"n{number}" for number in numbers]


async def test_events_are_delivered_once_in_order_and_signed(acme: World) -> None:
    await acme.publish(range(5))
    async with receiver() as hook, acme.delivering() as webhooks:
        webhook = webhook_at(hook.url, deliver_from=deliver_from(now()))
        await acme.put(webhook)
        await acme.publish(range(5, 45))
        await hook.has(40)
        await acme.publish(["last"])
        await hook.has(41)
        page = await acme.logged(webhooks, webhook, 41)

    assert hook.nodes() == [*names(range(5, 45)), "nlast"]
    assert hook.begun == 41
    for taken in hook.taken:
        assert taken.headers["content-type"] == "application/cloudevents+json"
        Standard(webhook.secrets[0].text).verify(taken.body, taken.headers)
    assert (page.state, page.failing_since, page.cursor) == ("working", None, None)
    assert [each.message_id for each in page.deliveries] == [each.message for each in reversed(hook.taken)]
    assert all(each.last.delivered and each.attempts == 1 for each in page.deliveries)


async def test_a_receiver_that_fails_at_random_gets_every_event_in_order(acme: World) -> None:
    chance = random.Random(32)

    def answer(number: int) -> int | None:
        return chance.choice([200, 204, 500, 503, 404, None])

    async with receiver(answer) as hook, acme.delivering() as webhooks:
        webhook = webhook_at(hook.url)
        await acme.put(webhook)
        await acme.publish(range(60))
        await hook.has(60)
        page = await acme.logged(webhooks, webhook, 60)

    assert list(dict.fromkeys(hook.nodes())) == names(range(60))
    order = [int(each.node.removeprefix("n")) for each in hook.taken]
    assert order == sorted(order)
    assert len({each.message for each in hook.taken}) == 60
    assert hook.begun > 60
    assert len(page.deliveries) == 60
    assert sum(each.attempts for each in page.deliveries) <= hook.begun


async def test_dead_receivers_delay_no_other(acme: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "PACE", replace(sweep.PACE, visit_seconds=600.0))
    held, dead_webhooks = asyncio.Event(), sweep.BOUNDS.per_tenant - 4

    async def never(_: int) -> int:
        await held.wait()
        return 500

    async with (
        receiver(never) as dead,
        receiver() as alive,
        acme.delivering(FormatSender(LOOPBACK, seconds=600)),
    ):
        for _ in range(dead_webhooks):
            await acme.put(webhook_at(dead.url))
        await acme.publish(range(1))
        await dead.was_asked(dead_webhooks)
        await acme.put(webhook_at(alive.url))
        await acme.publish(range(1, 10))
        await alive.has(9)

        assert dead.taken == []
        held.set()


async def test_delivery_goes_on_after_a_restart(acme: World) -> None:
    reached = asyncio.Event()

    async def slow(number: int) -> int:
        if number == 10:
            reached.set()
            await asyncio.sleep(0.05)
        return 200

    async with receiver(slow) as hook:
        await acme.put(webhook_at(hook.url))
        await acme.publish(range(30))
        async with acme.delivering():
            await reached.wait()
        async with acme.delivering():
            await hook.has(30)
            await until(lambda: hook.nodes()[-1] == "n29", seconds=GUARD_SECONDS, what="the last event")

    assert list(dict.fromkeys(hook.nodes())) == names(range(30))
    assert hook.begun <= 31


class FaultyStore(MemoryStore):
    """Does not answer now and then, before or after it has done what was asked."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self.is_faulty = True

    def _fault(self) -> None:
        if self.is_faulty and self._chance.random() < 0.15:
            raise StoreUnavailable("the test's fault")

    @override
    async def get(self, table: Table, key: Key) -> Item | None:
        self._fault()
        return await super().get(table, key)

    @override
    async def write(self, write: Put | Update) -> Item:
        self._fault()
        item = await super().write(write)
        self._fault()
        return item

    @override
    async def put_all(self, puts: Sequence[Put]) -> None:
        self._fault()
        await super().put_all(puts)
        self._fault()


@pytest.mark.parametrize("seed", range(3))
async def test_no_event_is_left_out_whatever_fails_together(
    acme: World, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The receiver, the store and the replica fail at random."""
    monkeypatch.setattr(sweep, "RETRY_SECONDS", 0.02)
    chance = random.Random(seed)
    async with FaultyStore(chance) as store, receiver(lambda _: chance.choice([200, 200, 500, None])) as hook:
        await store.create_tables(WEBHOOKS, DELIVERIES)
        store.is_faulty = False
        faulty = World(acme.client, store, acme.registry)
        await faulty.put(webhook_at(hook.url))
        await faulty.publish(range(50))
        store.is_faulty = True
        for number in range(1, 6):
            async with faulty.delivering():
                await hook.was_asked(9 * number)
        async with faulty.delivering():
            await until(lambda: "n49" in hook.nodes(), seconds=GUARD_SECONDS, what="the last event")

    assert list(dict.fromkeys(hook.nodes())) == names(range(50))
    order = [int(each.node.removeprefix("n")) for each in hook.taken]
    assert order == sorted(order)


async def test_two_replicas_share_the_webhooks_and_lose_nothing(acme: World) -> None:
    async with receiver() as hook:
        for _ in range(6):
            await acme.put(webhook_at(hook.url))
        async with acme.delivering(), acme.delivering():
            await acme.publish(range(20))
            await hook.has(120)

            async def each_has_all() -> bool:
                return all(hook.nodes().count(name) >= 6 for name in names(range(20)))

            await until(each_has_all, seconds=GUARD_SECONDS, what="all events for all webhooks")


async def test_a_replay_sends_the_same_messages_again(acme: World) -> None:
    async with receiver() as hook, acme.delivering() as webhooks:
        webhook = webhook_at(hook.url)
        await acme.put(webhook)
        await acme.publish(range(10))
        await hook.has(10)
        again = webhook.model_copy(update={"deliver_from": deliver_from(now() - timedelta(minutes=5))})
        await acme.put(again)
        await hook.has(20)
        page = await acme.logged(webhooks, again, 20)

    first, second = hook.taken[:10], hook.taken[10:20]
    assert [each.message for each in first] == [each.message for each in second]
    assert [each.body for each in first] == [each.body for each in second]
    assert len(page.deliveries) == 20


async def test_a_rotated_secret_signs_until_its_time_is_over(acme: World) -> None:
    old, newest = new_secret(), new_secret()
    until_when = now() + timedelta(hours=1)
    both = (WebhookSecret(text=newest), WebhookSecret(text=old, valid_until=until_when))
    async with receiver() as hook, acme.delivering():
        await acme.put(webhook_at(hook.url, secrets=both))
        await acme.publish(range(1))
        await hook.has(1)

    for secret in (old, newest):
        Standard(secret).verify(hook.taken[0].body, hook.taken[0].headers)


async def test_a_new_address_is_tried_at_once(acme: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its admin has mended it, and would wait for the pause of the one before: up to an hour."""
    for pause in ("FIRST_PAUSE_SECONDS", "LONGEST_PAUSE_SECONDS"):
        monkeypatch.setattr(progress, pause, 3600.0)
    async with receiver(lambda _: 500) as broken, receiver() as hook, acme.delivering() as webhooks:
        webhook = webhook_at(broken.url)
        await acme.put(webhook)
        await acme.publish(range(3))

        async def failed() -> bool:
            return (await acme.page(webhooks, webhook)).state == "retrying"

        await until(failed, seconds=GUARD_SECONDS, what="a failed attempt")
        await acme.put(webhook.model_copy(update={"name": "other"}))
        await acme.put(webhook.model_copy(update={"url": hook.url}))
        await hook.has(3)

    assert broken.begun == 1
    assert hook.nodes() == names(range(3))


async def test_an_answer_of_the_address_before_does_not_disable_a_webhook(acme: World) -> None:
    asked, changed = asyncio.Event(), asyncio.Event()

    async def gone(_: int) -> int:
        asked.set()
        await changed.wait()
        return 410

    async with receiver(gone) as before, receiver() as hook, acme.delivering() as webhooks:
        webhook = webhook_at(before.url)
        await acme.put(webhook)
        await acme.publish(range(2))
        await asked.wait()
        await acme.put(webhook.model_copy(update={"url": hook.url}))
        changed.set()
        await hook.has(2)
        page = await acme.logged(webhooks, webhook, 2)

    assert page.state == "working"
    assert hook.nodes() == names(range(2))


async def test_a_redirect_is_not_followed(acme: World) -> None:
    async with receiver() as target:

        def redirect(number: int) -> web.StreamResponse:
            return web.Response(status=(301, 302, 303, 307, 308)[number % 5], headers={"Location": target.url})

        async with receiver(redirect) as hook, acme.delivering() as webhooks:
            webhook = webhook_at(hook.url)
            await acme.put(webhook)
            await acme.publish(range(1))
            await hook.was_asked(6)
            page = await acme.page(webhooks, webhook)

        assert target.begun == 0
    assert page.state == "retrying"
    assert page.deliveries[0].last.status in (301, 302, 303, 307, 308)


async def test_neither_the_url_nor_the_answer_is_kept_or_logged(acme: World) -> None:
    def answer(_: int) -> web.StreamResponse:
        return web.Response(
            status=500, text="the-answer" * 10_000, headers={"X-Why": "the-answer", "Set-Cookie": "a=b"}
        )

    with structlog.testing.capture_logs() as logs:
        async with receiver(answer) as hook, acme.delivering() as webhooks:
            webhook = webhook_at(f"{hook.url}/the-token?key=the-token")
            await acme.put(webhook)
            await acme.publish(range(1))
            await hook.was_asked(3)

            async def tried() -> bool:
                return bool((await acme.page(webhooks, webhook)).deliveries)

            await until(tried, seconds=GUARD_SECONDS, what="an entry of the delivery log")
            page = await acme.page(webhooks, webhook)
            stored = await records(acme)
        async for message in replay(acme.client, EVENT.name, subjects.events_of(REF)):
            assert b"the-token" not in message.body

    assert "webhook_not_delivered" in {each["event"] for each in logs}
    told = json.dumps([logs, [repr(item) for item in stored]], default=str) + page.model_dump_json() + repr(webhook)
    assert "the-answer" not in told
    assert "the-token" not in told
    assert webhook.secrets[0].text not in told
    assert page.deliveries[0].last.answer_bytes == MAX_ANSWER_BYTES
    assert all("cookie" not in each.headers for each in hook.taken)


async def test_an_answer_without_an_end_is_left(acme: World) -> None:
    ended = asyncio.Event()

    async def endless(number: int) -> web.StreamResponse | int:
        return _Endless(ended) if number == 0 else 200

    async with receiver(endless) as hook, acme.delivering() as webhooks:
        webhook = webhook_at(hook.url)
        await acme.put(webhook)
        await acme.publish(range(3))
        await hook.was_asked(3)
        await asyncio.wait_for(ended.wait(), GUARD_SECONDS)
        page = await acme.logged(webhooks, webhook, 3)

    assert [each.last.answer_bytes for each in page.deliveries][-1] == MAX_ANSWER_BYTES
    assert all(each.last.delivered for each in page.deliveries)


class _Endless(web.StreamResponse):
    """Sends until the connection breaks."""

    def __init__(self, ended: asyncio.Event) -> None:
        super().__init__(status=200)
        self._ended = ended

    async def prepare(self, request: web.BaseRequest) -> object:  # type: ignore[override]
        writer = await super().prepare(request)
        try:
            while True:
                await self.write(bytes(65536))
        except OSError:
            self._ended.set()
        return writer


async def test_gone_disables_the_webhook_and_enabling_it_begins_again(acme: World) -> None:
    gone = [True]

    def answer(_: int) -> int:
        return 410 if gone[0] else 200

    async with receiver(answer) as hook, acme.delivering() as webhooks:
        webhook = webhook_at(hook.url)
        await acme.put(webhook)
        await acme.publish(range(3))

        async def disabled() -> bool:
            return (await acme.page(webhooks, webhook)).state == "disabled"

        await until(disabled, seconds=GUARD_SECONDS, what="a disabled webhook")
        told = [
            Event.model_validate_json(each.body).data
            async for each in replay(acme.client, EVENT.name, subjects.event(REF, "webhook.disabled"))
        ]
        gone[0] = False
        await acme.put(webhook.model_copy(update={"deliver_from": deliver_from(now() - timedelta(minutes=5))}))
        await until(lambda: len(hook.taken) >= 5, seconds=GUARD_SECONDS, what="all events, and that of the disabling")
        page = await acme.page(webhooks, webhook)

    (fact,) = told
    assert isinstance(fact, AdminFact)
    assert (fact.subject, fact.detail) == (webhook.id, "the receiver answered 410 Gone")
    assert [each.status for each in hook.taken] == [410, 200, 200, 200, 200]
    assert (page.state, page.disabled_reason) == ("working", "")


async def test_a_stream_that_was_made_anew_is_gone_on_with(acme: World) -> None:
    async with receiver() as hook:
        await acme.put(webhook_at(hook.url))
        async with acme.delivering():
            await acme.publish(range(30))
            await hook.has(30)
        await acme.client.jetstream().delete_stream(EVENT.name)
        await topology.apply(acme.client)
        await acme.publish(range(30, 35))
        async with acme.delivering():
            await hook.has(35)

    assert hook.nodes() == names(range(35))


async def test_a_long_backlog_is_sent_in_several_visits(acme: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "MOST_EVENTS", 7)
    async with receiver() as hook:
        await acme.publish(range(100))
        await acme.put(webhook_at(hook.url, deliver_from=deliver_from(now() - timedelta(minutes=5))))
        async with acme.delivering():
            await hook.has(100)

    assert hook.nodes() == names(range(100))


async def test_an_event_is_given_up_after_a_day_and_the_next_follows(
    acme: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "GIVE_UP_AFTER", timedelta(seconds=0.2))

    statuses = {"n0": 500, "n1": 200, "n2": 200}
    async with receiver(statuses) as hook, acme.delivering() as webhooks:
        webhook = webhook_at(hook.url)
        await acme.put(webhook)
        await acme.publish(range(3))
        await hook.has(1)

        async def given_up() -> bool:
            page = await acme.page(webhooks, webhook)
            return sum(each.given_up for each in page.deliveries) >= 1

        await until(given_up, seconds=GUARD_SECONDS, what="an event that is given up")
        failed = await acme.page(webhooks, webhook, failed_only=True)

    order = [int(each.node.removeprefix("n")) for each in hook.taken]
    assert order == sorted(order)
    assert all(not each.last.delivered for each in failed.deliveries)
    assert failed.deliveries[-1].given_up


async def test_what_is_known_of_a_deleted_webhook_is_removed(acme: World) -> None:
    async with receiver() as hook, acme.delivering() as webhooks:
        webhook, other = webhook_at(hook.url), webhook_at(hook.url)
        await acme.put(webhook)
        await acme.put(other)
        await acme.publish(range(3))
        await hook.has(6)
        await acme.delete(webhook)

        async def removed() -> bool:
            return not [item for item in await records(acme) if webhook.id in repr(item)]

        await until(removed, seconds=GUARD_SECONDS, what="no record of the deleted webhook")
        kept = await acme.logged(webhooks, other, 3)
        assert len(kept.deliveries) == 3
        await acme.delete(other)
        count = await webhooks.forgetting.forget_tenant(REF.tenant, 1000)

    assert count <= 4
    assert await records(acme) == []


async def test_a_tenant_whose_last_cluster_is_deleted_gets_nothing_again_with_its_next_one(acme: World) -> None:
    gone = [False]
    async with receiver(lambda _: 410 if gone[0] else 200) as hook, acme.delivering() as webhooks:
        webhook = webhook_at(hook.url)
        await acme.put(webhook)
        await acme.publish(range(3))
        await acme.logged(webhooks, webhook, 3)
        gone[0] = True
        await acme.publish(["refused"])

        async def disabled() -> bool:
            return (await acme.page(webhooks, webhook)).state == "disabled"

        await until(disabled, seconds=GUARD_SECONDS, what="a disabled webhook")
        begun = hook.begun
        removed = [await webhooks.forgetting.forget_tenant(REF.tenant, 1000) for _ in range(2)]
        (aside,) = await records(acme)
        assert aside.expires_at is not None
        await webhooks.deliverer.visit(Target(REF.tenant, webhook))
        page = await acme.page(webhooks, webhook)
        (item,) = await records(acme)

    assert (removed, page.deliveries, page.state) == ([5, 0], (), "disabled")
    assert item.expires_at is None
    assert hook.begun == begun


async def test_who_knows_only_an_earlier_form_of_a_webhook_lets_nothing_begin(acme: World) -> None:
    """A replica that missed a change would send everything again since the webhook was created."""
    async with receiver() as hook, acme.delivering() as webhooks:
        webhook = webhook_at(hook.url, deliver_from=deliver_from(now() - timedelta(minutes=5)))
        await acme.put(webhook)
        await acme.publish(range(3))
        await acme.logged(webhooks, webhook, 3)
        replayed = webhook.model_copy(update={"deliver_from": deliver_from(now())})
        await acme.put(replayed)

        async def begun() -> bool:
            kept = (await webhooks.records.progress(REF.tenant, webhook.id)).progress
            return kept is not None and kept.deliver_from_id == replayed.deliver_from.id

        await acme.publish(["next"])
        await until(begun, seconds=GUARD_SECONDS, what="the second beginning")
        assert await webhooks.deliverer.visit(Target(REF.tenant, webhook)) == Visited()
        await acme.delete(webhook)
        unknown = webhook.model_copy(update={"id": f"wh_{'0' * 16}"})
        assert await webhooks.deliverer.visit(Target(REF.tenant, unknown)) == Visited()

    assert hook.nodes() == [*names(range(3)), "nnext"]


async def test_the_rights_of_the_service_are_enough(tmp_path: Path) -> None:
    users = {"events": central_service("events"), "admin": control_plane()}
    async with nats_server(tmp_path / "nats", users=users) as server:
        admin = await bus.connect(server.settings("admin"), "admin")
        await topology.apply(admin)
        await bus.close(admin)
        client = await bus.connect(server.settings("events"), "events")
        gone = iter([200, 410])
        try:
            with structlog.testing.capture_logs() as logs:
                async with (
                    world(server, user="admin") as acme,
                    receiver(lambda _: next(gone)) as hook,
                    acme.delivering(client=client) as webhooks,
                ):
                    webhook = webhook_at(hook.url)
                    await acme.put(webhook)
                    await acme.publish(range(2))

                    async def disabled() -> bool:
                        return (await acme.page(webhooks, webhook)).state == "disabled"

                    await until(disabled, seconds=GUARD_SECONDS, what="a delivery, and a disabled webhook")
        finally:
            await bus.close(client)

    assert [each for each in logs if "ermission" in str(each)] == []
