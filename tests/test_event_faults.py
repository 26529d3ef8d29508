"""Every event reaches the archive, webhooks and followers once, while services and servers of NATS are killed by turns.

The suite publishes few events, `make test-events` 100,000.
"""

import json
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from clusterra_lab.machine.process import until
from clusterra_lab.stack.events_site import EventsSite, SiteOptions, events_site
from event_faults.followers import Follower, following
from event_faults.held import Held
from event_faults.kills import killed_by_turns
from event_faults.publishers import publishers
from event_faults.receivers import WebhookReceiver, webhook_receiver

EVENTS = int(os.environ.get("EVENTS", "1000"))
SEED = int(os.environ.get("EVENTS_SEED", "1"))
RATE = float(os.environ.get("EVENTS_RATE", "60"))
"""Events in a second. Two cores carry not many more, with 200 followers beside them."""
PUBLISHERS = 20
FOLLOWERS = int(os.environ.get("EVENTS_FOLLOWERS", "200" if EVENTS > 10_000 else "60"))
FOLLOWERS_EACH = 20
"""Followers of one service account, which may have 50 streams at a gateway: it may not know yet who has left."""
RECEIVERS = 2
KILLS = max(EVENTS // 500, 7)
"""At least so many: each server and each replica once."""
EVENTS_EACH_FAULT = 400
"""Of a receiver. Each costs some 7 s, as the events behind it wait."""
STALLED_SECONDS = 240.0
"""If no receiver gets anything for so long, what is missing does not come any more."""
KIND = "node.*"


@pytest.fixture
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EventsSite]:
    environment = {
        "CLUSTERRA_WEBHOOK_NETWORKS": '["127.0.0.0/8"]',
        "CLUSTERRA_READS_PER_MINUTE": "1000000",
    }
    async with events_site(tmp_path_factory.mktemp("events"), SiteOptions(environment=environment)) as running:
        yield running


async def test_every_event_is_held_once_by_all_receivers_whatever_is_killed(site: EventsSite) -> None:
    chance, began = random.Random(SEED), time.monotonic()
    async with AsyncExitStack() as stack:
        # A receiver of another kind, such as of Slack's, goes into this list.
        faults = max(EVENTS // EVENTS_EACH_FAULT, 2)
        receivers = [
            await stack.enter_async_context(webhook_receiver(f"webhook {number}", _chance(chance), faults, EVENTS))
            for number in range(RECEIVERS)
        ]
        for receiver in receivers:
            await _made_webhook(site, receiver)
        followers = await _followers(site, chance)
        publishing = await stack.enter_async_context(publishers(site.nats, site.cluster, PUBLISHERS, RATE))
        path = f"/v1/clusters/{site.cluster.cluster}/events/stream"
        await stack.enter_async_context(following(followers, site.gateway_urls, path))
        async with killed_by_turns(site, _chance(chance), KILLS) as kills:
            await publishing.publish(EVENTS)
        print(f"seed {SEED}: {EVENTS} events published in {time.monotonic() - began:.0f} s, kills: {dict(kills)}")
        holders = [*(each.held for each in receivers), *(each.held for each in followers)]
        await _settled(publishing.published, holders)
        archive = await _archived(site, publishing.published)

    rows = {
        "archive": archive.counts(publishing.published),
        **{each.held.name: {**each.held.counts(publishing.published), **each.counts()} for each in receivers},
        f"{len(followers)} followers": _summed(
            [{**each.held.counts(publishing.published), **each.counts()} for each in followers]
        ),
    }
    for name, counts in rows.items():
        print(f"{name}: {json.dumps(counts)}")
    statuses = sum((each.statuses for each in followers), Counter[str]())
    print(f"streams: {sum(each.streams for each in followers)}, {dict(statuses)}")
    print(f"faults of receivers: {dict(sum((each.faults for each in receivers), Counter[str]()))}")
    print(f"sent again by publishers: {publishing.sent_again}; {time.monotonic() - began:.0f} s in all")
    wrong = {
        (name, what): number
        for name, counts in rows.items()
        for what, number in counts.items()
        if number and (what != "repeated" or name == "archive")
    }
    assert not wrong
    assert len(publishing.published) == EVENTS
    assert kills.total() >= KILLS
    assert sum(each.streams for each in followers) > len(followers), "nobody came back"


def _chance(chance: random.Random) -> random.Random:
    """A source of its own, so that what one part draws does not depend on the times of the others."""
    return random.Random(chance.random())


def _summed(each: list[dict[str, int]]) -> dict[str, int]:
    return {name: sum(counts[name] for counts in each) for name in each[0]}


async def _made_webhook(site: EventsSite, receiver: WebhookReceiver) -> None:
    wanted = {"name": receiver.held.name, "url": receiver.address, "kinds": [KIND]}
    async with site.admin.session.post("/v1/webhooks", json=wanted) as answer:
        assert answer.status == 201, await answer.text()


async def _followers(site: EventsSite, chance: random.Random) -> list[Follower]:
    accounts = -(-FOLLOWERS // FOLLOWERS_EACH)
    keys = [await site.admin.service_account_key(f"follower-{number}") for number in range(accounts)]

    async def position() -> str | None:
        async with site.admin.session.get(f"/v1/clusters/{site.cluster.cluster}/events") as answer:
            return answer.headers.get("Event-Position")

    last = await until(position, seconds=90, what="the position of the events", every=0.1)
    return [
        Follower(_chance(chance), keys[number // FOLLOWERS_EACH], last, Held(f"follower {number}"))
        for number in range(FOLLOWERS)
    ]


async def _settled(published: list[str], holders: list[Held]) -> None:
    """Wait until all have everything, or nothing more comes."""
    had, at = -1, time.monotonic()

    def settled() -> bool:
        nonlocal had, at
        has = sum(each.times.total() for each in holders)
        if has != had:
            had, at = has, time.monotonic()
        return time.monotonic() - at > STALLED_SECONDS or all(each.has_all(published) for each in holders)

    await until(settled, seconds=3600 * 6, what="all receivers to have all events", every=0.5)


async def _archived(site: EventsSite, published: list[str]) -> Held:
    """What the archive tells over HTTP, once it has everything, or after a time."""
    deadline = time.monotonic() + STALLED_SECONDS
    while True:
        archive = Held("archive")
        for event in await site.admin.history(KIND):
            archive.take(event.id, event.subject)
        if not archive.lacks(published) or time.monotonic() > deadline:
            return archive
