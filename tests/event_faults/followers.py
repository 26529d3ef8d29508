"""Clients of the live stream of events that leave at random, and come back with the id of the last event they got."""

import asyncio
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector

from event_faults.held import Held

EVENT = re.compile(rb'id: (\d+)\ndata: \{[^\n]*?"id":"([^"]+)"[^\n]*?"subject":"([^"]+)"[^\n]*\n\n')
"""An event of a stream: its position, its id and its subject."""
RESET = b"event: reset"
NODE = re.compile(r"n\d+")
"""What the published events are about. The stream also tells what the test itself made, such as webhooks."""
STAYS_SECONDS = (1.0, 40.0)
LEAVES_SECONDS = (0.0, 2.0)
SILENT_SECONDS = 40.0
"""A stream without even a ping for so long is dead."""


@dataclass
class Follower:
    """One client. `last` is the position of the last event that it got."""

    chance: random.Random
    key: str
    last: str
    held: Held
    positions: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    streams: int = 0
    resets: int = 0

    async def follow(self, sessions: Sequence[ClientSession], path: str) -> None:
        """Follow until cancelled, each time at a gateway chosen at random."""
        while True:
            try:
                async with asyncio.timeout(self.chance.uniform(*STAYS_SECONDS)):
                    await self._once(self.chance.choice(sessions), path)
            except TimeoutError:
                self.statuses["left"] += 1
            except (ClientError, ConnectionError):
                self.statuses["cut"] += 1
            await asyncio.sleep(self.chance.uniform(*LEAVES_SECONDS))

    async def _once(self, session: ClientSession, path: str) -> None:
        headers = {"Authorization": f"Bearer {self.key}", "Last-Event-ID": self.last}
        async with session.get(path, headers=headers) as answer:
            self.statuses[str(answer.status)] += 1
            if answer.status != 200:
                return
            self.streams += 1
            rest = b""
            async for data in answer.content.iter_any():
                rest = self._take(rest + data)

    def _take(self, data: bytes) -> bytes:
        """Note the whole events. Returns what follows the last one."""
        end = data.rfind(b"\n\n") + 2
        if end < 2:
            return data
        whole = data[:end]
        self.resets += whole.count(RESET)
        for position, event_id, subject in EVENT.findall(whole):
            self.last = position.decode()
            self.positions[self.last] += 1
            if NODE.fullmatch(subject.decode()):
                self.held.take(event_id.decode(), subject.decode())
        return data[end:]

    def counts(self) -> dict[str, int]:
        """What else must be 0: positions that were told twice, and resets."""
        return {"positions_twice": self.positions.total() - len(self.positions), "resets": self.resets}


@asynccontextmanager
async def following(followers: Sequence[Follower], urls: Sequence[str], path: str) -> AsyncIterator[None]:
    """All of them follow until the block ends."""
    timeout = ClientTimeout(total=None, sock_connect=5.0, sock_read=SILENT_SECONDS)
    sessions = [ClientSession(url, timeout=timeout, connector=TCPConnector(limit=0)) for url in urls]
    tasks = [asyncio.create_task(each.follow(sessions, path)) for each in followers]
    try:
        yield
        for task in tasks:
            assert not task.done(), task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for session in sessions:
            await session.close()
