"""A process that competes for leases and prints its events as JSON lines, for tests that kill or freeze it."""

import asyncio
import json
import sys
import time

from clusterra_runtime.nats import bus
from clusterra_runtime.nats.lease import Leases
from clusterra_runtime.nats.lease_terms import Lease, Pace
from clusterra_runtime.settings import ServiceSettings

FROZEN_SECONDS = 1.0


def report(event: str, **fields: object) -> None:
    print(json.dumps({"event": event, "at": time.monotonic(), **fields}), flush=True)


async def work(lease: Lease) -> None:
    report("acquired", shard=lease.shard, fence=lease.fence)
    try:
        await asyncio.Event().wait()
    finally:
        report("ended", shard=lease.shard, fence=lease.fence)


async def notice_freezing(leases: Leases) -> None:
    before = time.monotonic()
    while True:
        await asyncio.sleep(0.01)
        if time.monotonic() - before > FROZEN_SECONDS:
            report("thawed", held=sorted(leases.held))
        before = time.monotonic()


async def main(url: str, shards: int, pace: Pace) -> None:
    client = await bus.connect(ServiceSettings(nats_url=url), "process")
    leases = Leases(client, "scaler", shards, work, instance="process", pace=pace)
    await asyncio.gather(leases.run(), notice_freezing(leases))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), Pace(**json.loads(sys.argv[3]))))
