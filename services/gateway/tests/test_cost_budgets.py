"""Budgets: set by admins, measured by the ledger, each threshold told once a month."""

import asyncio
from functools import partial
from typing import Any

import pytest
from aiohttp import ClientSession
from clusterra_contracts.bus.envelope import decode
from clusterra_contracts.events import AdminFact, BudgetFact, Event, Fact
from clusterra_contracts.rpc.costs import SpendingRow
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, budget_alerts_partition, budget_key
from clusterra_gateway.bus.requests import LedgerRequests
from clusterra_gateway.money.budgets.sweep import BudgetSweep
from clusterra_lab.machine.process import until
from clusterra_runtime.nats import bus
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Attributes
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.store import Put
from gateway_world import World
from nats.aio.msg import Msg


def spent(micro_usd: int, forecast: int) -> SpendingRow:
    return SpendingRow(
        purpose="job",
        user="ada",
        uid=20001,
        account="physics",
        burn_rate_micro_usd_per_hour=0,
        pending_bill_micro_usd=0,
        month_to_date_micro_usd=micro_usd,
        forecast_micro_usd=forecast,
    )


async def set_budget(boss: ClientSession, limit: str, path: str = "user/ada", **more: object) -> dict[str, Any]:
    async with boss.put(f"/v1/budgets/{path}", json={"limit": limit, **more}) as answer:
        assert answer.status == 200, await answer.text()
        found: dict[str, Any] = await answer.json()
        return found


async def heard_from(world: World, family: str) -> list[Fact]:
    """The facts of a family of kinds, from now on."""
    told: list[Fact] = []

    async def heard(message: Msg) -> None:
        told.append(decode(Event, message.data, dict(message.headers or {})).data)

    await world.client.subscribe(f"event.acme.main.{family}.>", cb=heard)
    await world.client.flush()
    return told


async def budgets(session: ClientSession) -> list[dict[str, Any]]:
    async with session.get("/v1/budgets") as answer:
        found: list[dict[str, Any]] = (await answer.json())["budgets"]
        return found


async def test_a_budget_shows_actual_costs_and_forecast_and_the_tenants_has_the_overhead(world: World) -> None:
    boss = await world.login("boss@acme.example")
    overhead = spent(7, 7).model_copy(update={"purpose": "overhead", "user": "", "account": "", "uid": None})
    world.acme.events.spending[:] = [spent(1_000_000, 3_000_000), overhead]

    user = await set_budget(boss, "10.00")
    account = await set_budget(boss, "10.00", path="account/physics")
    tenant = await set_budget(boss, "10.00", path="tenant/acme")
    nobody = await set_budget(boss, "10.00", path="user/nobody")

    found = [(each["actual"]["amount"], each["forecast"]["amount"]) for each in (user, account, tenant, nobody)]
    assert found == [("1.000000", "3.000000")] * 2 + [("1.000007", "3.000007"), ("0.000000", "0.000000")]
    assert len(await budgets(boss)) == 4


async def test_each_threshold_is_told_once_however_many_gateways_look(world: World) -> None:
    boss, told = await world.login("boss@acme.example"), await heard_from(world, "budget")
    thresholds = [{"measure": "actual", "percent": 50}, {"measure": "forecast", "percent": 100}]
    await set_budget(boss, "1.00", thresholds=thresholds)
    world.acme.events.spending[:] = [spent(400_000, 2_000_000)]
    async with Outbox(world.store, partial(bus.store, world.client)) as outbox:
        directory = Directory(world.store, outbox)
        sweeps = [BudgetSweep(directory, LedgerRequests(world.client), world.registry) for _ in range(3)]

        await asyncio.gather(*(sweep.sweep("acme") for sweep in sweeps))
        world.acme.events.spending[:] = [spent(500_000, 2_000_000)]
        await asyncio.gather(*(sweep.sweep("acme") for sweep in sweeps * 2))
        await set_budget(boss, "0.90", thresholds=thresholds)
        await sweeps[0].sweep("acme")
        await until(lambda: thresholds_of(told) == ["forecast 100", "actual 50"], seconds=30, what="both events")

    crossed = next(fact for fact in told if isinstance(fact, BudgetFact))
    assert (crossed.limit_micro_usd, crossed.micro_usd, crossed.name) == (1_000_000, 2_000_000, "ada")
    assert all(each["crossed_at"] for each in (await budgets(boss))[0]["thresholds"])
    assert len((await world.store.query(ACCOUNTS, budget_alerts_partition("acme"))).items) == 2


async def test_a_budget_that_cannot_be_read_stops_no_other(world: World) -> None:
    boss, told = await world.login("boss@acme.example"), await heard_from(world, "budget")
    await set_budget(boss, "1.00", thresholds=[{"measure": "actual", "percent": 100}])
    world.acme.events.spending[:] = [spent(1_000_000, 1_000_000)]
    bad: Attributes = {"scope": {"kind": "galaxy", "name": "milky-way"}}
    await world.store.write(Put(ACCOUNTS, budget_key("acme", "galaxy#milky-way"), bad, Absent()))

    async with Outbox(world.store, partial(bus.store, world.client)) as outbox:
        directory = Directory(world.store, outbox)
        await BudgetSweep(directory, LedgerRequests(world.client), world.registry).sweep("acme")
        await until(lambda: thresholds_of(told) == ["actual 100"], seconds=30, what="the event of the other budget")

    assert [each["name"] for each in await budgets(boss)] == ["ada"]


@pytest.mark.usefixtures("quick_sweeps")
async def test_what_is_known_counts_while_the_ledger_does_not_answer_for_one_cluster(world: World) -> None:
    boss, told = await world.login("boss@acme.example"), await heard_from(world, "budget")
    await set_budget(boss, "1.00", thresholds=[{"measure": "actual", "percent": 100}])
    world.acme.events.spending[:] = [spent(1_000_000, 3_000_000)]
    await world.add_silent_cluster()

    await until(lambda: thresholds_of(told) == ["actual 100"], seconds=90, what="the event of the budget")
    (budget,) = await budgets(boss)
    await world.acme.stop_serving()
    async with boss.get("/v1/budgets") as answer:
        nothing_known = answer.status

    amounts = [budget[name]["amount"] for name in ("actual", "forecast")]
    assert (amounts, budget["unknown"]) == (["1.000000", "3.000000"], True)
    assert nothing_known == 503


def thresholds_of(told: list[Fact]) -> list[str]:
    return [f"{fact.measure} {fact.percent}" for fact in told if isinstance(fact, BudgetFact)]


async def test_a_scope_of_no_kind_is_answered_with_those_that_there_are(world: World) -> None:
    boss = await world.login("boss@acme.example")

    async with boss.put("/v1/budgets/team/physics", json={"limit": "1.00"}) as answer:
        problem = await answer.json()

    assert answer.status == 404
    assert "a user, an account or a tenant" in problem["detail"]
    assert "tenant/acme" in problem["hint"]


async def test_the_audit_has_who_changed_budgets_and_quotas(world: World) -> None:
    boss = await world.login("boss@acme.example")
    budget_facts, quota_facts = await heard_from(world, "budget"), await heard_from(world, "quota")

    await set_budget(boss, "250.00")
    await set_budget(boss, "9.00", path="account/physics")
    await boss.delete("/v1/budgets/user/ada")
    await boss.put("/v1/quotas/user/ada", json={"limit": "5.00", "mode": "block"})
    await boss.delete("/v1/quotas/user/ada")
    await until(lambda: len(budget_facts) + len(quota_facts) == 5, seconds=30, what="five events")

    facts = [fact for fact in (*budget_facts, *quota_facts) if isinstance(fact, AdminFact)]
    assert [(fact.kind, fact.actor, fact.subject, fact.detail) for fact in facts] == [
        ("budget.changed", "boss", "user:ada", "250.000000 USD, actual 80 %, actual 100 %, forecast 100 %"),
        ("budget.changed", "boss", "account:physics", "9.000000 USD, actual 80 %, actual 100 %, forecast 100 %"),
        ("budget.deleted", "boss", "user:ada", ""),
        ("quota.changed", "boss", "user:ada", "5.000000 USD, block, buffer 0 %"),
        ("quota.deleted", "boss", "user:ada", ""),
    ]


@pytest.mark.parametrize(
    "body", [{"limit": "0"}, {"limit": 5}, {"limit": "5", "thresholds": []}, {"limit": "5", "mode": "block"}]
)
async def test_a_wrong_budget_is_refused(world: World, body: dict[str, object]) -> None:
    boss = await world.login("boss@acme.example")

    async with boss.put("/v1/budgets/user/ada", json=body) as answer:
        assert answer.status == 400
