"""The queue of events is bounded: what it cannot take stays unpublished, and is found again."""

import asyncio
from contextlib import suppress
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from clusterra_contracts.identity import ClusterRef, now
from clusterra_lab.machine.process import until
from clusterra_proxy.watch import event_queue, job_poll
from clusterra_proxy.watch.event_queue import EventQueue
from clusterra_proxy.watch.job_facts import PublishedJobEvents, job_event, transitions
from clusterra_proxy.watch.job_poll import JobPoll
from clusterra_runtime.nats.bus import BusUnavailable
from job_records import job


class Bus:
    """Refuses events until it is open."""

    def __init__(self) -> None:
        self.open = False
        self.published: list[str] = []

    async def publish(self, _ref: ClusterRef, fact: Any, *, version: str, time: datetime) -> None:
        del version, time
        if not self.open:
            raise BusUnavailable("the stream is full")
        self.published.append(fact.job_id)


async def test_what_a_full_queue_does_not_take_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_queue, "MAX_EVENTS", 10)
    monkeypatch.setattr(event_queue, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(event_queue, "LONGEST_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(job_poll, "RETENTION", now() - datetime.min.replace(tzinfo=now().tzinfo))
    bus = Bus()
    queue = EventQueue(cast(Any, bus), ClusterRef(tenant="a", cluster="b"))
    jobs = [job(number) for number in range(1, 31)]
    cluster = SimpleNamespace(jobs=jobs, owner_name=lambda _record: "ada", ref=None)
    poll = JobPoll(cast(Any, cluster), queue)
    poll.spans = cast(Any, SimpleNamespace(add=lambda *_: None))
    sending = asyncio.create_task(queue.run())
    poll.start_publishing(PublishedJobEvents())
    assert not queue.accepts

    bus.open = True
    async with asyncio.timeout(90):
        while await queue.caught_up():
            assert len(bus.published) % 10 == 0
            published = PublishedJobEvents()
            for number in bus.published:
                published.add(number, f"{int(cast(datetime, jobs[0].submit_time).timestamp())}.0", "job.submitted")
            queue.resume()
            poll.start_publishing(published)
            await asyncio.sleep(0)

    async def all_published() -> bool:
        return len(bus.published) == len(jobs)

    await until(all_published, seconds=90, every=0.01, what="the last events")

    assert bus.published == [str(number) for number in range(1, 31)]
    sending.cancel()
    with suppress(asyncio.CancelledError):
        await sending


async def test_the_names_of_nodes_fill_the_queue_before_its_events_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_queue, "MAX_NAME_BYTES", 1_000_000)
    bus = Bus()
    queue = EventQueue(cast(Any, bus), ClusterRef(tenant="a", cluster="b"))
    record = job(1, "RUNNING", nodes="n[1-10000]", start=1)
    running = job_event(transitions(record)[1], record, "ada")
    queue.put(running)
    assert queue.accepts

    queue.put(running)
    accepted = queue.accepts
    bus.open = True
    sending = asyncio.create_task(queue.run())
    async with asyncio.timeout(90):
        assert await queue.caught_up()
    queue.resume()

    assert (accepted, queue.accepts) == (False, True)
    sending.cancel()
    with suppress(asyncio.CancelledError):
        await sending
