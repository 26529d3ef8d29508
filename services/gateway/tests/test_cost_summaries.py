"""Summaries of costs: burn rate, pending bill, queue, month to date and forecast, by user, account and cluster."""

from typing import Any

import pytest
from aiohttp import ClientSession
from clusterra_contracts.rpc.costs import SpendingRow
from clusterra_contracts.rpc.slurm import Job
from gateway_world import World

SUMMARY = "/v1/clusters/main/costs/summary"
BODY = {"script": "#!/bin/sh\n", "job": {"environment": ["PATH=/bin"]}}
OVERHEAD = SpendingRow(
    purpose="overhead",
    burn_rate_micro_usd_per_hour=10,
    pending_bill_micro_usd=0,
    month_to_date_micro_usd=100,
    forecast_micro_usd=100,
)


def of_ada(uid: int, forecast: int | None = 5_000_000) -> SpendingRow:
    return SpendingRow(
        purpose="job",
        user="ada",
        uid=uid,
        account="physics",
        running_jobs=2,
        burn_rate_micro_usd_per_hour=1_000_000,
        pending_bill_micro_usd=500_000,
        month_to_date_micro_usd=2_000_000,
        forecast_micro_usd=forecast,
        stale=True,
        unknown=forecast is None,
    )


async def summary(session: ClientSession, path: str = SUMMARY) -> dict[str, Any]:
    async with session.get(path) as answer:
        assert answer.status == 200, await answer.text()
        found: dict[str, Any] = await answer.json()
        return found


async def uid_of(session: ClientSession) -> int:
    async with session.get("/v1/users/me") as answer:
        return int((await answer.json())["uid"])


async def submitted(world: World, session: ClientSession, time_limit_seconds: float | None) -> None:
    async with session.post("/v1/clusters/main/jobs/submit", json=BODY) as answer:
        job_id = (await answer.json())["job_id"]
    job: Job = world.acme.jobs[job_id]
    world.acme.jobs[job_id] = job.model_copy(update={"time_limit_seconds": time_limit_seconds, "array_tasks": "0-9"})


async def test_a_member_sees_their_own_row_and_what_waits_at_its_projected_cost(world: World) -> None:
    ada = await world.login("ada@acme.example")
    world.acme.events.spending[:] = [of_ada(await uid_of(ada)), OVERHEAD]
    await submitted(world, ada, 3600.0)

    (row,) = (await summary(ada))["rows"]

    assert (row["purpose"], row["name"], row["running_jobs"], row["stale"]) == ("job", "ada", 2, True)
    amounts = [row[name]["amount"] for name in ("burn_rate_per_hour", "pending_bill", "month_to_date", "forecast")]
    assert amounts == ["1.000000", "0.500000", "2.000000", "5.000000"]
    # Ten tasks with one of the two CPUs of a shape for 0.10 USD per hour.
    assert row["queued"]["amount"] == "0.500000"


async def test_what_nobody_knows_is_null(world: World) -> None:
    ada = await world.login("ada@acme.example")
    world.acme.events.spending[:] = [of_ada(await uid_of(ada), forecast=None)]
    await submitted(world, ada, None)

    (row,) = (await summary(ada))["rows"]

    assert (row["queued"], row["forecast"], row["unknown"]) == (None, None, True)


async def test_an_admin_sees_accounts_overhead_and_the_whole_bill_of_clusters_and_tenant(world: World) -> None:
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")
    world.acme.events.spending[:] = [of_ada(await uid_of(ada)), OVERHEAD]

    accounts = await summary(boss, f"{SUMMARY}?by=account")
    (cluster,) = (await summary(boss, f"{SUMMARY}?by=cluster"))["rows"]
    (tenant,) = (await summary(boss, "/v1/cost-summary?by=tenant"))["rows"]

    assert [(row["purpose"], row["name"]) for row in accounts["rows"]] == [("job", "physics"), ("overhead", None)]
    assert (cluster["purpose"], cluster["name"], cluster["burn_rate_per_hour"]["amount"]) == (
        "bill",
        "main",
        "1.000010",
    )
    assert (tenant["purpose"], tenant["name"], tenant["month_to_date"]["amount"]) == ("bill", "acme", "2.000100")
    assert tenant["forecast"]["amount"] == "5.000100"
    assert cluster["as_of"]


@pytest.mark.usefixtures("short_handover")
async def test_the_costs_of_other_clusters_are_told_while_the_ledger_does_not_answer_for_one(world: World) -> None:
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")
    world.acme.events.spending[:] = [of_ada(await uid_of(ada), forecast=3_000_000)]
    await world.add_silent_cluster()

    of_users = await summary(boss, "/v1/cost-summary")
    of_clusters = await summary(boss, "/v1/cost-summary?by=cluster")
    async with boss.get("/v1/clusters/silent/costs/summary") as answer:
        of_silent = answer.status

    (row,) = of_users["rows"]
    assert (row["month_to_date"]["amount"], row["unknown"], of_users["complete"]) == ("2.000000", True, False)
    by_name = {each["name"]: each for each in of_clusters["rows"]}
    assert (by_name["main"]["forecast"]["amount"], by_name["main"]["unknown"]) == ("3.000000", False)
    assert (by_name["silent"]["forecast"], by_name["silent"]["unknown"]) == (None, True)
    assert of_silent == 503


async def test_another_tenants_costs_are_in_no_summary(world: World) -> None:
    ada, chief = await world.login("ada@acme.example"), await world.login("chief@rival.example")
    world.acme.events.spending[:] = [of_ada(await uid_of(ada))]

    async with chief.get(SUMMARY) as answer:
        assert answer.status == 404
    rows = (await summary(chief, "/v1/cost-summary"))["rows"]

    assert rows == []
