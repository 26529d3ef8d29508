"""Arrays at real receivers: a webhook with digests gets few messages, and each event in them once."""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from datetime import timedelta

import pytest
from clusterra_contracts.events import DigestFact, Event, JobFact, JobKind
from clusterra_contracts.identity import now
from clusterra_events.webhooks import digests, progress
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats.events import EventPublisher
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.store import Put, StoreUnavailable, Update

from .webhook_world import GUARD_SECONDS, REF, Receiver, World, receiver, webhook_at, world

TASKS = 10_000
MOST_MESSAGES = 12
ENDS: tuple[JobKind, ...] = ("job.completed", "job.failed", "job.timeout", "job.cancelled")


@pytest.fixture
async def acme(nats: NatsServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(progress, "FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(progress, "LONGEST_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(digests, "FIRST_WINDOW", timedelta(seconds=1))
    async with world(nats) as found:
        yield found


def fact_of(job_id: str, kind: JobKind) -> JobFact:
    return JobFact(
        kind=kind,
        job_id=job_id,
        name="align",
        user="ada",
        uid=2000,
        partition="main",
        state="COMPLETED",
        submitted_at=now(),
    )


async def publish(acme: World, facts: Iterable[JobFact]) -> None:
    publisher = EventPublisher(acme.client, "proxy")
    limit = asyncio.Semaphore(32)

    async def one(fact: JobFact) -> None:
        async with limit:
            await publisher.publish(REF, fact, version=secrets.token_hex(4), time=now())

    # A failure is told in the order of the stream, so that it is published by itself.
    for fact in (given := list(facts))[:1]:
        await one(fact)
    await asyncio.gather(*map(one, given[1:]))


def told(hook: Receiver) -> Counter[str]:
    """All events that the receiver has got, by kind: as they are, or in digests. A message counts once."""
    found = Counter[str]()
    for body in {each.message: each.body for each in hook.taken if each.status == 200}.values():
        data = Event.model_validate_json(body).data
        found.update(data.counts if isinstance(data, DigestFact) else [data.kind])
    return found


def messages(hook: Receiver) -> list[Event]:
    return [Event.model_validate_json(each.body) for each in hook.taken]


async def test_an_array_of_10_000_tasks_is_told_in_few_messages(acme: World) -> None:
    facts = [fact_of(f"42_{task}", ENDS[task % 100] if task % 100 < 4 else ENDS[0]) for task in range(TASKS)]
    async with receiver() as hook, acme.delivering():
        await acme.put(webhook_at(hook.url, arrays="digest"))
        await publish(acme, [fact_of("42", "job.submitted"), *facts])
        await until(
            lambda: told(hook).total() >= TASKS + 1, seconds=GUARD_SECONDS, what="digests with all events of the tasks"
        )

    found = messages(hook)
    assert told(hook) == Counter(each.kind for each in facts) + Counter({"job.submitted": 1})
    assert len(found) <= MOST_MESSAGES
    assert found[0].kind == "job.submitted"
    assert sum(each.kind in ("job.failed", "job.timeout") for each in found) == 1
    last = found[-1].data
    assert isinstance(last, DigestFact)
    assert last.totals == Counter(each.kind for each in facts)


async def test_a_digest_is_sent_when_it_is_due_without_another_event(acme: World) -> None:
    async with receiver() as hook, acme.delivering() as webhooks:
        webhook = webhook_at(hook.url, kinds=("job.failed",), arrays="digest")
        await acme.put(webhook)
        await publish(acme, [fact_of("42_1", "job.failed")])
        await publish(acme, [fact_of("42_2", "job.failed"), fact_of("42_3", "job.completed")])
        await until(lambda: len(hook.taken) >= 2, seconds=GUARD_SECONDS, what="the digest")
        page = await acme.logged(webhooks, webhook, 2)

    first, second = messages(hook)
    assert (first.kind, first.subject) == ("job.failed", "42_1")
    assert isinstance(second.data, DigestFact)
    assert second.data.counts == {"job.failed": 1}
    assert second.data.failed_tasks == ("42_2",)
    assert second.data.totals == {"job.failed": 2}
    assert [(each.kind, each.subject) for each in page.deliveries] == [("job.digest", "42"), ("job.failed", "42_1")]


async def test_a_webhook_without_digests_gets_each_task(acme: World) -> None:
    async with receiver() as hook, acme.delivering():
        await acme.put(webhook_at(hook.url))
        await publish(acme, [fact_of(f"42_{task}", "job.failed") for task in range(5)])
        await until(lambda: len(hook.taken) >= 5, seconds=GUARD_SECONDS, what="5 events")

    assert {each.kind for each in messages(hook)} == {"job.failed"}


async def test_what_was_counted_is_told_when_digests_are_turned_off(
    acme: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "FIRST_WINDOW", timedelta(hours=1))
    async with receiver() as hook, acme.delivering():
        webhook = webhook_at(hook.url, arrays="digest")
        await acme.put(webhook)
        await publish(acme, [fact_of("42_1", "job.completed"), fact_of("42", "job.submitted")])
        await until(lambda: len(hook.taken) >= 1, seconds=GUARD_SECONDS, what="the event of the array")
        await acme.put(webhook.model_copy(update={"arrays": "tasks"}))
        await until(lambda: len(hook.taken) >= 2, seconds=GUARD_SECONDS, what="the digest")

    assert [each.kind for each in messages(hook)] == ["job.submitted", "job.digest"]


class Unsteady(MemoryStore):
    """A store of which some writes fail: before they are made, or after it."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    async def write(self, write: Put | Update) -> Item:
        self.writes += 1
        if self.writes % 5 == 2:
            raise StoreUnavailable("not written")
        item = await super().write(write)
        if self.writes % 5 == 4:
            raise StoreUnavailable("written, and not answered")
        return item


async def test_each_event_is_counted_once_whatever_fails_and_with_two_replicas(
    nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(progress, "LONGEST_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(digests, "FIRST_WINDOW", timedelta(milliseconds=100))
    monkeypatch.setattr("clusterra_events.webhooks.sweep.RETRY_SECONDS", 0.05)
    statuses = (500, 200, None, 503, 200)
    facts = [fact_of(f"{array}_{task}", ENDS[task % 4]) for task in range(400) for array in (42, 43)]
    async with Unsteady() as store, world(nats, store=store) as acme, receiver(lambda n: statuses[n % 5]) as hook:
        webhook = webhook_at(hook.url, arrays="digest")
        while True:
            try:
                await acme.put(webhook)
                break
            except StoreUnavailable:
                continue
        async with acme.delivering() as one, acme.delivering() as other:
            # Both replicas visit it, whoever has the lease.
            for each in (one, other):
                each.sweep.only(lambda: range(16))
            for begin in range(0, len(facts), 100):
                await publish(acme, facts[begin : begin + 100])
            await until(lambda: told(hook).total() >= len(facts), seconds=GUARD_SECONDS, what="digests with all events")

    assert told(hook) == Counter(each.kind for each in facts)
    for array in ("42", "43"):
        own = [each for each in messages(hook) if each.subject == array]
        by_id = {each.id: each for each in own}
        # In each attempt a message is the same.
        assert all(by_id[each.id] == each for each in own)
        assert [each.data.number for each in by_id.values() if isinstance(each.data, DigestFact)] == list(
            range(1, len(by_id) + 1)
        )
