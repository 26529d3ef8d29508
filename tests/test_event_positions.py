"""A list of events and the stream that goes on from its position have together each event once."""

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from clusterra_contracts.events import JobFact
from clusterra_contracts.identity import now
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from clusterra_runtime.nats.events import EventPublisher

KIND = "job.timeout"
FIRST = 900_000_000
LISTS = 6
PAUSE_SECONDS = 0.02
"""Between two events: for a few milliseconds each, the archive is behind them. A busy one can always be behind,
so each list that comes too early makes the pause longer."""
PAGES = 6
"""About how many pages a list has, however many events there are: with more, each list would take longer than the last,
and one of its pages would always come too early."""
LAST = 10**9


def fact(user: User, number: int) -> JobFact:
    return JobFact(
        kind=KIND,
        job_id=str(number),
        name="counted",
        user=user.profile.name,
        uid=user.profile.uid,
        partition="main",
        state="TIMEOUT",
        submitted_at=now(),
    )


async def listed(user: User, *, newest_first: bool, begin: str, limit: int) -> tuple[list[str], str] | None:
    """The jobs of all pages of a list, and its position; None if the archive was behind or too slow at a page."""
    jobs: list[str] = []
    query = {"kind": KIND, "after": begin, "limit": str(limit), "newest_first": str(newest_first).lower()}
    positions: set[str] = set()
    while True:
        async with user.session.get(f"/v1/clusters/{user.cluster}/events", params=query) as answer:
            if answer.status == 503:
                return None
            assert answer.status == 200, await answer.text()
            page = await answer.json()
            position = answer.headers.get("Event-Position")
            if position is None:
                return None
            positions.add(position)
        jobs += [event["subject"] for event in page["events"] if int(event["subject"]) >= FIRST]
        if page["cursor"] is None:
            break
        query["cursor"] = page["cursor"]
    (position,) = positions
    return jobs, position


async def streamed(user: User, position: str) -> list[str]:
    """The jobs of the stream after a position, to the last one."""
    jobs: list[str] = []
    activity = user.activity(after=position)
    assert isinstance(activity, AsyncGenerator)
    async with aclosing(activity) as stream:
        async for event in stream:
            assert event.event != "reset", event
            told = json.loads(event.data)
            if told["type"].endswith(KIND) and int(told["subject"]) >= FIRST:
                if told["subject"] == str(LAST):
                    return jobs
                jobs.append(told["subject"])
    raise AssertionError("the stream ended")


async def test_no_event_is_lost_or_told_twice_between_a_list_and_the_stream(lab: Stack, ada: User) -> None:
    publisher = EventPublisher(lab.bus, "proxy")
    begin = now().isoformat()
    published: list[str] = []
    pause = PAUSE_SECONDS

    async def publish() -> None:
        for number in itertools.count(FIRST):
            await publisher.publish(lab.cluster, fact(ada, number), version="1", time=now())
            published.append(str(number))
            await asyncio.sleep(pause)

    async def read(*, newest_first: bool) -> tuple[list[str], str] | None:
        nonlocal pause
        limit = min(max(7, len(published) // PAGES), 500)
        found = await listed(ada, newest_first=newest_first, begin=begin, limit=limit)
        pause *= 1 if found else 1.5
        return found

    publishing = asyncio.create_task(publish())
    try:
        await until(lambda: published, seconds=120, what="the first event")
        lists = []
        for number in range(LISTS):
            one = partial(read, newest_first=bool(number % 2))
            lists.append(await until(one, seconds=120, what="a list of which the archive has every event"))
    finally:
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)
    assert published
    await publisher.publish(lab.cluster, fact(ada, LAST), version="1", time=now())
    followed = [await streamed(ada, position) for _, position in lists]

    for (jobs, _), after in zip(lists, followed, strict=True):
        together = jobs + after
        assert len(together) == len(set(together)), "none is told twice"
        assert set(together) >= set(published), "none is lost"
    assert any(jobs for jobs, _ in lists)
    assert any(followed)
