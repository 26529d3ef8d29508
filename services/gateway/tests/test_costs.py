"""Costs over HTTP: exact amounts as strings, unknown ones as null, tables that are whole or break off."""

import csv
import io
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from aiohttp import ClientPayloadError
from clusterra_contracts.identity import now
from clusterra_contracts.rpc.costs import CostRow, JobCost, RunCost, RunCosts
from clusterra_contracts.rpc.slurm_steps import Allocation, JobStep, JobSteps, RunSteps
from clusterra_gateway.http.answers.responses import decimal
from clusterra_gateway.money.costs.rows import FOCUS_COLUMNS
from gateway_world import World
from hypothesis import given
from hypothesis import strategies as st

COSTS = "/v1/clusters/main/costs"


def row(number: int, micro_usd: int | None, *, name: str = "align") -> CostRow:
    return CostRow(
        purpose="job",
        day=date(2026, 11, 1),
        user="ada",
        uid=20001,
        account="physics",
        job_id=str(number),
        name=name,
        worker="xs-1",
        shape="xs",
        micro_usd=micro_usd,
        seconds=1800,
        unknown=micro_usd is None,
    )


@given(st.integers(-(10**15), 10**15))
def test_amounts_are_exact(micro_usd: int) -> None:
    assert Decimal(decimal(micro_usd)) * 1_000_000 == micro_usd


async def test_a_report_has_exact_amounts_and_unknown_ones_are_null(world: World) -> None:
    boss = await world.login("boss@acme.example")
    world.acme.events.costs[:] = [row(1, 1_250_000), row(2, None), CostRow(purpose="idle", micro_usd=7, seconds=60)]

    async with boss.get(f"{COSTS}?from=2026-11-01&to=2026-12-01&by=day,job") as answer:
        report = await answer.json()

    assert answer.status == 200
    assert [entry["cost"] for entry in report["rows"]] == [{"amount": "1.250000", "currency": "USD"}, None]
    assert (report["bill"]["amount"], report["shares"]["amount"], report["overhead"]["amount"]) == (
        "1.250007",
        "1.250000",
        "0.000007",
    )
    assert report["cursor"] == "2"
    read = world.acme.events.cost_reads[-1]
    assert (read.first, read.last, read.by) == (date(2026, 11, 1), date(2026, 11, 30), ("day", "job"))
    assert read.viewer.admin


async def test_without_days_the_report_is_of_this_month(world: World) -> None:
    ada = await world.login("ada@acme.example")

    async with ada.get(COSTS) as answer:
        assert answer.status == 200

    read = world.acme.events.cost_reads[-1]
    assert (read.first.day, read.last, read.by) == (1, now().date(), ("job",))
    assert read.viewer.only_uid is not None


@pytest.mark.parametrize(
    "query", ["from=2026-11-02&to=2026-11-02", "from=2024-01-01&to=2026-01-01", "from=20261101", "by=weather", "x=1"]
)
async def test_a_wrong_query_is_refused(world: World, query: str) -> None:
    ada = await world.login("ada@acme.example")

    async with ada.get(f"{COSTS}?{query}") as answer:
        assert answer.status == 400

    assert world.acme.events.cost_reads == []


async def test_a_table_has_every_page_and_no_text_becomes_a_formula(world: World) -> None:
    boss = await world.login("boss@acme.example")
    world.acme.events.costs[:] = [row(number, number, name="=1+1") for number in range(1, 8)]

    async with boss.get(COSTS, headers={"Accept": "text/csv"}) as answer:
        table = list(csv.DictReader(io.StringIO(await answer.text(), newline="")))
    async with boss.get(f"{COSTS}?format=focus") as answer:
        focus = list(csv.DictReader(io.StringIO(await answer.text(), newline="")))

    assert [line["job_id"] for line in table] == [str(number) for number in range(1, 8)]
    assert sum(Decimal(line["cost"]) for line in table) == Decimal("0.000028")
    assert {line["name"] for line in table} == {"'=1+1"}
    assert tuple(focus[0]) == FOCUS_COLUMNS
    assert sum(Decimal(line["BilledCost"]) for line in focus) == Decimal("0.000028")
    assert (focus[0]["BillingPeriodEnd"], focus[0]["SubAccountId"]) == ("2026-12-01T00:00:00Z", "physics")
    assert world.acme.events.cost_reads[-1].by == ("day", "job", "worker")


async def test_a_table_that_breaks_off_is_not_taken_for_the_whole(world: World) -> None:
    boss = await world.login("boss@acme.example")
    world.acme.events.costs[:] = [row(number, number) for number in range(1, 8)]
    world.acme.events.costs_fail_after = 2

    async with boss.get(f"{COSTS}?format=csv") as answer:
        with pytest.raises(ClientPayloadError):
            await answer.read()


async def test_another_tenant_has_no_such_costs(world: World) -> None:
    chief = await world.login("chief@rival.example")

    async with chief.get(COSTS) as answer:
        assert answer.status == 404

    assert world.acme.events.cost_reads == []


async def test_a_job_has_its_cost_and_one_that_the_ledger_does_not_know_yet_is_unknown(world: World) -> None:
    boss = await world.login("boss@acme.example")
    for number in ("1", "2", "3"):
        world.acme.add_job(number)
    world.acme.jobs["3"] = world.acme.jobs["3"].model_copy(update={"started_at": now() - timedelta(minutes=1)})
    world.acme.events.job_costs["1"] = JobCost(runs=2, micro_usd=72_500, as_of=now(), stale=True)

    costs = []
    for number in ("1", "2", "3"):
        async with boss.get(f"/v1/clusters/main/jobs/{number}") as answer:
            costs.append((await answer.json())["cost"])

    assert costs[0]["total"] == {"amount": "0.072500", "currency": "USD"}
    assert costs[0]["stale"]
    assert costs[1]["total"]["amount"] == "0.000000"
    assert (costs[2]["total"], costs[2]["unknown"]) == (None, True)


async def test_the_ledger_is_not_asked_what_a_job_cost_that_never_ran(world: World) -> None:
    boss = await world.login("boss@acme.example")
    changes: dict[str, dict[str, object]] = {"1": {}, "2": {"restarts": 1}, "3": {"array_tasks": "5-9"}}
    for number, change in changes.items():
        job = world.acme.add_job(number, state="PENDING")
        world.acme.jobs[number] = job.model_copy(update=change)
        world.acme.events.job_costs[number] = JobCost(runs=1, micro_usd=72_500, as_of=now(), stale=False)

    costs = []
    for number in changes:
        async with boss.get(f"/v1/clusters/main/jobs/{number}") as answer:
            costs.append((await answer.json())["cost"]["total"]["amount"])

    assert costs == ["0.000000", "0.072500", "0.072500"]


def steps_of_a_job(micro_usd: int | None) -> tuple[JobSteps, RunCosts]:
    """A run of ten seconds. A step has half of it, and another one all of it in the last two seconds."""
    begin = datetime(2026, 11, 24, 12, tzinfo=UTC)
    at = [begin + timedelta(seconds=seconds) for seconds in range(11)]
    whole, half = Allocation(cpus=2, memory_mib=1024, nodes=1), Allocation(cpus=1, memory_mib=512, nodes=1)
    steps = (
        JobStep(step_id="0", name="half", state="COMPLETED", started_at=at[0], ended_at=at[4], allocation=half),
        JobStep(step_id="1", name="all", state="RUNNING", started_at=at[8], ended_at=None, allocation=whole),
    )
    run = RunSteps(job_id="1", started_at=begin, ended_at=None, allocation=whole, steps=steps)
    cost = JobCost(runs=1, open_runs=1, micro_usd=micro_usd, as_of=at[10], unknown=micro_usd is None)
    known = RunCost(job_id="1", started_at=begin, micro_usd=micro_usd)
    return JobSteps(runs=(run,)), RunCosts(job=cost, runs=(known,))


@pytest.mark.parametrize(
    ("micro_usd", "steps", "remainder"),
    [(72_501, ["0.014500", "0.014500"], "0.043501"), (0, ["0.000000"] * 2, "0.000000"), (None, [None, None], None)],
)
async def test_steps_and_remainder_are_the_jobs_cost(
    world: World, micro_usd: int | None, steps: list[str | None], remainder: str | None
) -> None:
    ada = await world.login("ada@acme.example")
    world.acme.add_job("1")
    world.acme.steps["1"], world.acme.events.run_costs["1"] = steps_of_a_job(micro_usd)

    async with ada.get("/v1/clusters/main/jobs/1/costs") as answer:
        assert answer.status == 200, await answer.text()
        report = await answer.json()

    amounts = [each["cost"] and each["cost"]["amount"] for each in report["steps"]]
    assert amounts == steps
    assert (report["remainder"] and report["remainder"]["amount"]) == remainder
    assert (report["unknown"], report["complete"]) == (micro_usd is None, True)


async def test_a_job_that_has_not_started_has_no_steps_and_another_users_is_none(world: World) -> None:
    ada, bob = await world.login("ada@acme.example"), await world.login("bob@acme.example")
    world.acme.add_job("1", state="PENDING")

    async with ada.get("/v1/clusters/main/jobs/1/costs") as answer:
        report = await answer.json()
    async with bob.get("/v1/clusters/main/jobs/1/costs") as refused:
        assert refused.status == 404

    assert (report["steps"], report["total"], report["remainder"]) == (
        [],
        *[{"amount": "0.000000", "currency": "USD"}] * 2,
    )
