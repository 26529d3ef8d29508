"""Replicas that compete for leases, in this process and in processes of their own, and a record of their holdings."""

import asyncio
import json
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from clusterra_lab.machine.process import Process, start, until
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import last_stored
from clusterra_runtime.nats.lease import Leases
from clusterra_runtime.nats.lease_terms import Fences, Lease, Pace
from nats.js import JetStreamContext

QUICK = Pace(ttl_seconds=4, renew_seconds=0.4, poll_seconds=0.2, margin_seconds=0.5)
SHARING_SECONDS = 30.0
"""Far longer than a takeover takes."""
SHARDS = 4
STREAM = "KV_leases"


@dataclass
class Holding:
    replica: str
    shard: int
    fence: int
    begun: float
    ended: float = float("inf")


@dataclass
class Register:
    """Which replica held which shard when, by one clock."""

    holdings: list[Holding] = field(default_factory=list)

    def all_ended(self) -> bool:
        return all(holding.ended < float("inf") for holding in self.holdings)

    def check(self) -> None:
        """Assert that no two replicas held a shard at the same time, and that the fences of a shard rise."""
        shards: dict[int, list[Holding]] = defaultdict(list)
        for holding in self.holdings:
            shards[holding.shard].append(holding)
        for holdings in shards.values():
            holdings.sort(key=lambda holding: holding.begun)
            for earlier, later in pairwise(holdings):
                assert earlier.ended <= later.begun, f"{earlier} overlaps {later}"
                assert earlier.fence < later.fence


class Replica:
    """A replica in this process, whose work records itself in the register."""

    def __init__(
        self,
        client: Client,
        name: str,
        register: Register,
        *,
        pace: Pace = QUICK,
        shards: int = SHARDS,
        service: str = "scaler",
        division: str = "",
        fences: Fences | None = None,
    ) -> None:
        self.name = name
        self.leases = Leases(
            client, service, shards, self._work, instance=name, division=division, fences=fences, pace=pace
        )
        self.failures = 0
        self._register = register
        self._task = asyncio.create_task(self.leases.run())

    @property
    def held(self) -> set[int]:
        return set(self.leases.held)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})
        assert self._task.cancelled(), self._task

    async def _work(self, lease: Lease) -> None:
        holding = Holding(self.name, lease.shard, lease.fence, time.monotonic())
        self._register.holdings.append(holding)
        try:
            if self.failures:
                self.failures -= 1
                raise ValueError("the work fails")
            await asyncio.Event().wait()
        finally:
            holding.ended = time.monotonic()


@asynccontextmanager
async def replicas(
    client: Client, register: Register, *names: str, pace: Pace = QUICK, shards: int = SHARDS
) -> AsyncIterator[list[Replica]]:
    running = [Replica(client, name, register, pace=pace, shards=shards) for name in names]
    try:
        yield running
    finally:
        await asyncio.gather(*(replica.stop() for replica in running))


async def competed(client: Client, replica: Replica, times: int = 3) -> None:
    """Wait until a replica has competed so many times: each time it first writes its own key."""
    written: set[int] = set()

    async def often() -> bool:
        stored = await last_stored(client, STREAM, replica.leases._member)
        written.update(() if stored is None else (stored.sequence,))
        return len(written) > times

    await until(often, seconds=SHARING_SECONDS, what=f"{replica.name} to compete {times} times")


async def shared(among: Iterable[Replica], shards: int = SHARDS, seconds: float = SHARING_SECONDS) -> None:
    """Wait until the replicas hold all shards in equal shares."""
    everyone = list(among)
    share = -(-shards // len(everyone))

    def fair() -> bool:
        counts = [len(replica.held) for replica in everyone]
        return sum(counts) == shards and max(counts) <= share

    await until(fair, seconds=seconds, what="equal shares")


async def keys(js: JetStreamContext) -> set[str]:
    info = await js.stream_info(STREAM, subjects_filter="$KV.leases.>")
    return set(info.state.subjects or {})


class Contender:
    """A replica in its own process."""

    def __init__(self, process: Process) -> None:
        self.process = process

    @classmethod
    async def begin(cls, nats: NatsServer, directory: Path, name: str, pace: Pace) -> "Contender":
        script = Path(__file__).with_name("lease_process.py")
        argv = [sys.executable, str(script), nats.url, str(SHARDS), json.dumps(asdict(pace))]
        return cls(await start(name, argv, log=directory / f"{name}.log"))

    def events(self, event: str) -> list[dict[str, Any]]:
        lines = [line for line in self.process.log.read_text().splitlines() if line.startswith("{")]
        return [entry for line in lines if (entry := json.loads(line))["event"] == event]

    async def wait_acquired(self, number: int, seconds: float = 30.0) -> None:
        def acquired() -> bool:
            return len(self.events("acquired")) >= number

        await until(acquired, seconds=seconds, what=f"{number} leases of {self.process.name}", process=self.process)
