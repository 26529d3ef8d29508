"""A quota that cannot be read: its tenant's clusters are not swept, and those of others are."""

import asyncio

from clusterra_gateway.accounts.keyspace import ACCOUNTS, quotas_partition
from clusterra_gateway.bus.requests import LedgerRequests, SlurmRequests
from clusterra_gateway.quotas.reservations import Reservations
from clusterra_gateway.quotas.sweep import QuotaSweep
from clusterra_lab.machine.process import until
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Attributes, Key
from clusterra_runtime.store.store import Put
from gateway_world import World
from structlog.testing import capture_logs


async def test_the_sweep_of_quotas_goes_on(world: World) -> None:
    bad: Attributes = {"scope": {"kind": "galaxy", "name": "milky-way"}}
    await world.store.write(Put(ACCOUNTS, Key(quotas_partition("acme"), "galaxy#milky-way"), bad, Absent()))
    slurm, ledger = SlurmRequests(world.client), LedgerRequests(world.client)
    sweep = QuotaSweep(Reservations(world.store), slurm, ledger, world.registry)

    with capture_logs() as logs:
        running = asyncio.create_task(sweep.run())
        await until(
            lambda: running.done() or "quotas_unreadable" in {str(each["event"]) for each in logs},
            seconds=15,
            what="a look at the tenant",
        )
        ended = running.done()
        running.cancel()
        await asyncio.wait([running])

    assert not ended
