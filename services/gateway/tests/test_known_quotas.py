"""A submit knows the quotas without reading them again, and a changed quota counts for the next submit."""

import asyncio
import time
from functools import partial

import pytest
from clusterra_contracts.identity import now
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, quota_key
from clusterra_gateway.accounts.records import Member
from clusterra_gateway.directory.maps.map_records import MapRecords
from clusterra_gateway.directory.maps.mapped_users import MappedUsers
from clusterra_gateway.money.quotas.handlers import KIND
from clusterra_gateway.money.quotas.known_quotas import KEPT_SECONDS, KnownQuotas
from clusterra_gateway.money.quotas.limits import Limits
from clusterra_gateway.money.quotas.records import Quota, QuotaScope
from clusterra_gateway.money.quotas.reservations import Quotas, Reservations
from clusterra_lab.machine.process import until
from clusterra_runtime.nats import bus
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.store import Put
from gateway_world import World

SUBMIT = "/v1/clusters/main/jobs/submit"
BODY = {"script": "#!/bin/sh\n", "job": {"environment": ["PATH=/bin"]}}
SCOPE = QuotaScope(kind="tenant", name="acme")
NOTHING = Quota(scope=SCOPE, limit_micro_usd=0, mode="block", buffer_percent=0, set_by="boss", set_at=now())
BOSS = Member(issuer="", subject="", tenant="acme", user="boss", uid=5001, email="boss@acme.example", joined_at=now())
WRITE = Put(ACCOUNTS, quota_key("acme", str(SCOPE)), NOTHING.attributes(), Absent())


class HeldReads(Reservations):
    """Reservations whose reads of quotas end when the test lets them."""

    def __init__(self, world: World) -> None:
        super().__init__(world.store)
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()

    async def quotas(self, tenant: str) -> Quotas:
        found = await super().quotas(tenant)
        self.begun.set()
        await self.may_end.wait()
        return found


async def test_the_quotas_are_read_again_after_their_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    known = KnownQuotas(Reservations(world.store))
    await known.of("acme")
    await world.store.write(WRITE)
    before = (await known.of("acme")).readable

    later = time.monotonic() + KEPT_SECONDS
    monkeypatch.setattr(time, "monotonic", lambda: later)

    assert before == ()
    assert (await known.of("acme")).readable == (NOTHING,)


async def test_what_was_read_before_a_change_is_not_kept(world: World) -> None:
    reads = HeldReads(world)
    known = KnownQuotas(reads)
    reading = asyncio.create_task(known.of("acme"))
    await reads.begun.wait()
    await world.store.write(WRITE)

    known.forget("acme")
    reads.may_end.set()
    await reading

    assert (await known.of("acme")).readable == (NOTHING,)


async def test_a_quota_that_is_set_and_deleted_counts_for_the_very_next_submit(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = 3600.0
    statuses = [(await ada.post(SUBMIT, json=BODY)).status]

    await boss.put("/v1/quotas/tenant/acme", json={"limit": "0.00", "mode": "block"})
    statuses.append((await ada.post(SUBMIT, json=BODY)).status)
    await boss.delete("/v1/quotas/tenant/acme")
    statuses.append((await ada.post(SUBMIT, json=BODY)).status)

    assert statuses == [201, 403, 201]


async def test_a_quota_that_another_replica_sets_counts_once_its_event_has_arrived(world: World) -> None:
    ada = await world.login("ada@acme.example")
    world.acme.time_limit_seconds = 3600.0
    first = (await ada.post(SUBMIT, json=BODY)).status

    async with Outbox(world.store, partial(bus.store, world.client)) as outbox:
        directory = Directory(world.store, outbox)
        limits = Limits(KIND, directory, world.registry, MappedUsers(MapRecords(world.store)))
        await limits.set(BOSS, NOTHING, 0, "nothing")

    async def refused() -> bool:
        return (await ada.post(SUBMIT, json=BODY)).status == 403

    assert first == 201
    await until(refused, seconds=KEPT_SECONDS / 2, what="a submit beyond the quota", every=0.05)
