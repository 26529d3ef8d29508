"""Kills the servers of NATS and the replicas of the services by turns."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clusterra_lab.parts.nats import NatsServer
from clusterra_lab.stack.events_site import EventsSite
from clusterra_lab.stack.fleet import RunningService

LONGEST_DOWN_SECONDS = 2.0
LONGEST_UP_SECONDS = 3.0


@asynccontextmanager
async def killed_by_turns(site: EventsSite, chance: random.Random, kills: int) -> AsyncIterator[Counter[str]]:
    """Kill something again and again while the block runs, and then until there were so many kills. All run at the end.

    One after the other: the next one only when the last one is healthy again, so that a majority of NATS is there.
    """
    counted, over = Counter[str](), asyncio.Event()

    async def kill() -> None:
        while not over.is_set() or counted.total() < kills:
            # An order of its own in each round, so that each is killed beside each other.
            targets: list[tuple[str, NatsServer | RunningService]] = [
                *((f"nats-{number}", each) for number, each in enumerate(site.nats.servers)),
                *site.services.items(),
            ]
            chance.shuffle(targets)
            for name, target in targets:
                if over.is_set() and counted.total() >= kills:
                    return
                await asyncio.sleep(chance.uniform(0, LONGEST_UP_SECONDS))
                await _killed(target, chance.uniform(0, LONGEST_DOWN_SECONDS))
                counted[name] += 1

    task = asyncio.create_task(kill())
    try:
        yield counted
    finally:
        over.set()
        await task


async def _killed(target: NatsServer | RunningService, down_seconds: float) -> None:
    if isinstance(target, NatsServer):
        await target.kill()
        await asyncio.sleep(down_seconds)
        await target.restart()
    else:
        target.kill()
        await asyncio.sleep(down_seconds)
        await target.start()
        await target.ready()
