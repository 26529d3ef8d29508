"""A page of a stream that does not end in time: what has arrived of it is passed on, and not asked for again."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from clusterra_lab.machine.process import until
from clusterra_runtime.nats import direct
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.streams.follow import Follower
from nats.aio.msg import Msg


class SlowStream:
    """Answers direct gets as the server does, but stops after some messages of each page."""

    def __init__(self, client: Client, stored: int, per_page: int) -> None:
        self.name = f"SLOW{uuid.uuid4().hex[:8]}"
        self.asked: list[int] = []
        """The sequences from which pages were asked for."""
        self._client = client
        self._stored = stored
        self._per_page = per_page

    async def answer(self, request: Msg) -> None:
        first = int(json.loads(request.data)["seq"])
        self.asked.append(first)
        for sequence in range(first, min(first + self._per_page, self._stored + 1)):
            headers = {"Nats-Sequence": str(sequence), "Nats-Subject": f"slow.{sequence}", "Nats-Stream": self.name}
            await self._client.publish(request.reply, b"{}", headers=headers)


@asynccontextmanager
async def slow_stream(client: Client, *, stored: int, per_page: int) -> AsyncIterator[SlowStream]:
    stream = SlowStream(client, stored, per_page)
    subscription = await client.subscribe(f"$JS.API.DIRECT.GET.{stream.name}", cb=stream.answer)
    try:
        yield stream
    finally:
        await subscription.unsubscribe()


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "REQUEST_SECONDS", 0.5)


async def test_what_has_arrived_of_a_page_is_returned_and_more_is_expected(client: Client) -> None:
    async with slow_stream(client, stored=9, per_page=4) as stream:
        page, more = await direct.read_page(client, stream.name, "slow.>", after=2)

    assert [stored.sequence for stored in page] == [3, 4, 5, 6]
    assert more


async def test_a_page_of_which_nothing_arrives_is_no_answer(client: Client) -> None:
    async with slow_stream(client, stored=0, per_page=4) as stream:
        with pytest.raises(BusUnavailable):
            await direct.read_page(client, stream.name, "slow.>", after=0)


async def test_a_replay_whose_pages_all_come_too_late_is_given_up(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "MOST_LATE_SECONDS", 0.9)
    received: list[int] = []

    async def replayed(name: str) -> None:
        async for stored in direct.replay(client, name, "slow.>"):
            received.append(stored.sequence)

    async with slow_stream(client, stored=1000, per_page=4) as stream:
        with pytest.raises(BusUnavailable, match="in time"):
            await replayed(stream.name)

    assert len(stream.asked) <= 2
    assert received == list(range(1, len(received) + 1))


async def test_a_stream_is_followed_to_its_end_by_pages_that_do_not_end_in_time(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[int] = []
    async with slow_stream(client, stored=9, per_page=4) as stream:
        follower = Follower(client, stream.name, "slow.>", lambda page: received.extend(each.sequence for each in page))
        monkeypatch.setattr(follower, "_position", 0)
        following = asyncio.create_task(follower.run())

        await until(lambda: len(received) >= 9, seconds=30, what="all messages", every=0.01)

        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    assert received == list(range(1, 10))
    assert stream.asked[:3] == [1, 5, 9]
