"""A quota or a reservation that cannot be read is one bad record: the others count, and nobody passes the bad one."""

from typing import Any

import aiohttp
import pytest
from clusterra_contracts.identity import now
from clusterra_contracts.rpc.costs import JobCost
from clusterra_gateway.accounts.keyspace import ACCOUNTS, quota_key, reservation_key, reservations_partition
from clusterra_lab.machine.process import until
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Attributes
from clusterra_runtime.store.store import Put, Update
from gateway_world import World
from test_quotas import COST, HOUR, quotas, set_quota, submit

UNREADABLE: Attributes = {"scope": {"kind": "galaxy", "name": "milky-way"}}


async def spoil_quota(world: World, scope: str) -> None:
    """Write a quota that cannot be read."""
    await world.store.write(Put(ACCOUNTS, quota_key("acme", scope), UNREADABLE, Absent()))


async def used_by(session: aiohttp.ClientSession) -> Any:
    (found,) = await quotas(session)
    return found["used"]["amount"]


async def test_whom_an_unreadable_quota_counts_submits_nothing_until_it_is_set_again(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, "5.00", path="tenant/acme")
    await spoil_quota(world, "user#ada")

    of_ada = await submit(ada)
    of_boss = await submit(boss)
    listed = await quotas(boss)
    await set_quota(boss, "5.00")
    again = await submit(ada)

    assert (of_ada[0], of_boss[0], again[0]) == (503, 201, 201)
    assert "the quota of the user ada cannot be read" in of_ada[1]["detail"]
    assert [each["name"] for each in listed] == ["acme"]


@pytest.mark.usefixtures("quick_sweeps")
async def test_the_sweep_counts_and_settles_the_jobs_of_all_others(world: World) -> None:
    boss = await world.login("boss@acme.example")
    await set_quota(boss, "0.40", path="tenant/acme")
    await spoil_quota(world, "galaxy#milky-way")
    await world.store.write(Put(ACCOUNTS, reservation_key(world.acme.ref, "bad"), UNREADABLE, Absent()))

    for number in (1, 2):  # half of a compute-xs for four hours: 0.2 USD each at a quota of 0.4
        world.acme.add_job(str(number))
        world.acme.jobs[str(number)] = world.acme.jobs[str(number)].model_copy(
            update={"time_limit_seconds": 4 * HOUR, "cpus": 1}
        )

    async def counted() -> bool:
        return bool(await used_by(boss) == "0.400000")

    await until(counted, seconds=90, what="the jobs that came past the gateway to be counted")


@pytest.mark.usefixtures("quick_sweeps")
async def test_a_job_whose_reservation_cannot_be_read_is_not_counted_twice(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, COST)
    job_id = (await submit(ada))[1]["job_id"]
    page = await world.store.query(ACCOUNTS, reservations_partition(world.acme.ref))
    await world.store.write(Update(ACCOUNTS, page.items[0].key, set={"micro_usd": "much"}))
    lists = len(world.acme.lists)

    await until(lambda: len(world.acme.lists) > lists + 1, seconds=90, what="two looks at the cluster")
    async with ada.patch(f"/v1/clusters/main/jobs/{job_id}", json={"time_limit": 90}) as answer:
        dearer = answer.status

    assert world.acme.cancelled == []
    assert await used_by(ada) == COST
    assert dearer == 503


@pytest.mark.usefixtures("quick_sweeps")
async def test_a_job_that_cannot_be_read_keeps_no_other_from_being_settled(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, "5.00")
    jobs = [(await submit(ada))[1]["job_id"] for _ in range(2)]
    world.acme.unreadable_jobs = {jobs[0]}
    ended = {"state": "COMPLETED", "started_at": now(), "ended_at": now()}
    for job in jobs:
        world.acme.jobs[job] = world.acme.jobs[job].model_copy(update=ended)
        world.acme.events.job_costs[job] = JobCost(runs=1, micro_usd=0, as_of=now())

    async def settled() -> bool:
        return bool(await used_by(ada) == COST)

    await until(settled, seconds=90, what="the end of one reservation, beside that of the unreadable job")
