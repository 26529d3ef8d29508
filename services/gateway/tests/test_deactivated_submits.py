"""Each cluster's Slurm is told who may submit nothing: who is disabled, and deleted service accounts."""

from datetime import timedelta
from typing import override

import pytest
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.rpc.slurm_limits import MAX_BLOCKED, BlockSubmits
from clusterra_gateway.accounts.deactivated import Deactivated, deactivated_on
from clusterra_gateway.accounts.keyspace import ACCOUNTS, deactivated_key
from clusterra_gateway.bus.requests import LedgerRequests, SlurmRequests
from clusterra_gateway.money.quotas.reservations import Reservations
from clusterra_gateway.money.quotas.slurm_limits import SlurmLimits
from clusterra_gateway.money.quotas.sweep import QuotaSweep
from clusterra_gateway.people.deactivations import DeactivationSweep
from clusterra_lab.machine.process import until
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.store import Update
from gateway_world import World
from people_world import change, me
from proxy_stand_in import NotedBlocks


async def test_whoever_is_disabled_submits_nothing_until_they_are_enabled(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    ada_id = (await me(ada))["id"]

    async def told(*users: str) -> bool:
        return bool(world.acme.blocks) and world.acme.blocks[-1].users == users

    assert await change(boss, ada_id, disabled=True) == 200
    await until(lambda: told("ada"), seconds=90, what="that ada may submit nothing")
    assert await change(boss, ada_id, disabled=False) == 200
    await until(lambda: told(), seconds=90, what="that ada may submit again")


async def test_a_deleted_service_account_submits_nothing_until_its_name_comes_back(world: World) -> None:
    boss = await world.login("boss@acme.example")
    binding = world.registry.clusters[world.acme.ref]

    async def created() -> None:
        async with boss.post("/v1/service-accounts", json={"name": "ci"}) as answer:
            assert answer.status == 201, await answer.text()

    await created()
    async with boss.delete("/v1/service-accounts/ci") as answer:
        assert answer.status == 204, await answer.text()
    deleted = await deactivated_on(world.store, "acme", binding)
    await created()

    assert deleted == ["ci"]
    assert await deactivated_on(world.store, "acme", binding) == []


@pytest.mark.parametrize(
    ("binding", "by_quotas", "by_itself"),
    [
        ({}, 0, 1),
        ({"accounting_enforced": True}, 1, 0),
        ({"attached": True}, 0, 0),
        ({"attached": True, "accounting_enforced": True}, 1, 0),
    ],
)
async def test_a_cluster_is_told_by_one_sweep_and_an_attached_one_only_where_its_binding_allows_it(
    world: World, binding: dict[str, bool], by_quotas: int, by_itself: int
) -> None:
    mark = Deactivated(since=now(), names={"allocated": "ada"})
    await world.store.write(Update(ACCOUNTS, deactivated_key("acme", "ada"), set=mark.attributes()))
    known = world.registry.clusters[world.acme.ref].model_copy(update=binding)
    registry = Registry()
    registry._clusters[world.acme.ref] = known
    slurm, itself = NotedBlocks(world.client), NotedBlocks(world.client)
    quotas = QuotaSweep(Reservations(world.store), slurm, LedgerRequests(world.client), registry)

    await quotas.sweep(world.acme.ref, known)
    await DeactivationSweep(world.store, itself, registry).sweeper().once()

    told = BlockSubmits(users=("ada",))
    assert (slurm.blocks, itself.blocks) == ([told] * by_quotas, [told] * by_itself)


async def test_a_name_of_an_identity_source_counts_only_on_its_clusters(world: World) -> None:
    mark = Deactivated(since=now(), names={"allocated": "ada", "campus": "alovelace"})
    await world.store.write(Update(ACCOUNTS, deactivated_key("acme", "ada"), set=mark.attributes()))
    own = world.registry.clusters[world.acme.ref]

    found = [
        await deactivated_on(world.store, "acme", own.model_copy(update={"identity_source": source}))
        for source in (None, "campus", "other")
    ]

    assert found == [["ada"], ["alovelace"], []]


async def test_of_more_than_a_message_holds_the_first_are_told(world: World) -> None:
    binding, users = world.registry.clusters[world.acme.ref], [f"user{number}" for number in range(MAX_BLOCKED + 1)]
    slurm = NotedBlocks(world.client)

    await SlurmLimits(slurm).keep(world.acme.ref, binding, (), users)

    assert slurm.blocks == [BlockSubmits(users=tuple(sorted(users[:MAX_BLOCKED])))]


async def test_who_was_deactivated_last_comes_first(world: World) -> None:
    for number in range(3):
        mark = Deactivated(since=now() - timedelta(days=number), names={"allocated": f"user{number}"})
        await world.store.write(Update(ACCOUNTS, deactivated_key("acme", f"user{number}"), set=mark.attributes()))

    found = await deactivated_on(world.store, "acme", world.registry.clusters[world.acme.ref])

    assert found == ["user0", "user1", "user2"]


async def test_a_state_that_could_not_be_kept_is_not_sent_again_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer may take longer than the pause."""
    calls, clock = list[BlockSubmits](), [0.0]
    monkeypatch.setattr("clusterra_gateway.money.quotas.slurm_limits.time.monotonic", lambda: clock[0])
    binding = world.registry.clusters[world.acme.ref]

    class Failing(SlurmRequests):
        @override
        async def block_submits(self, ref: ClusterRef, request: BlockSubmits) -> None:
            calls.append(request)
            clock[0] += 35
            raise RpcFailed(RpcError(kind="unavailable", detail="slurmdbd is away"))

    limits = SlurmLimits(Failing(world.client))
    for deactivated in ((), (), ("ada",), ("ada",)):
        await limits.keep(world.acme.ref, binding, (), deactivated)

    assert calls == [BlockSubmits(), BlockSubmits(users=("ada",))]
