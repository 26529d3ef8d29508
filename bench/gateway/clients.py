"""A process with many concurrent clients of the gateway: `python -m gateway.clients`.

Reads a `Load` as JSON from its standard input, and prints a `Told` as JSON. A process of its own, so that its work is
not in the times that the bench measures.
"""

import asyncio
import random
import sys
import time

from aiohttp import ClientSession, ClientTimeout, TCPConnector
from pydantic import BaseModel


class Load(BaseModel):
    """What the clients ask for."""

    url: str
    headers: dict[str, str]
    clients: int
    seconds: float
    paths: tuple[tuple[str, str], ...]
    """Pairs of the kind of a request and its path. Each request is for one of them, chosen at random: a path that is
    there twice is asked for twice as often."""


class Told(BaseModel):
    """What the clients were told."""

    answers: int
    failed: dict[str, int]
    """Status -> number of answers that were not 200."""
    seconds: float
    latencies: dict[str, tuple[float, ...]]
    """Seconds of each request by its kind."""


SEED = 11


async def ask(
    session: ClientSession, load: Load, until: float, told: dict[str, list[float]], failed: dict[str, int]
) -> None:
    """One client: a request after the other, without a pause."""
    while (began := time.perf_counter()) < until:
        kind, path = random.choice(load.paths)
        async with session.get(path) as answer:
            await answer.read()
            told[kind].append(time.perf_counter() - began)
            if answer.status != 200:
                failed[str(answer.status)] = failed.get(str(answer.status), 0) + 1


async def run(load: Load) -> Told:
    """Run all clients to the end of their time."""
    told: dict[str, list[float]] = {kind: [] for kind, _ in load.paths}
    failed: dict[str, int] = {}
    connector, timeout = TCPConnector(limit=load.clients), ClientTimeout(total=60)
    async with ClientSession(load.url, headers=load.headers, connector=connector, timeout=timeout) as session:
        began = time.perf_counter()
        until = began + load.seconds
        await asyncio.gather(*(ask(session, load, until, told, failed) for _ in range(load.clients)))
        seconds = time.perf_counter() - began
    latencies = {kind: tuple(each) for kind, each in told.items()}
    return Told(answers=sum(map(len, told.values())), failed=failed, seconds=seconds, latencies=latencies)


def main() -> None:
    random.seed(SEED)
    print(asyncio.run(run(Load.model_validate_json(sys.stdin.read()))).model_dump_json())


if __name__ == "__main__":
    main()
