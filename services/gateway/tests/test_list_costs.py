"""The costs of a list of jobs: one read for a page, exact, unknown ones as null, and only if they are asked for."""

from datetime import UTC, date, datetime, timedelta

from clusterra_contracts.identity import now
from clusterra_contracts.rpc.costs import MAX_COST_DAYS, MAX_COST_JOBS, CostOfJob
from clusterra_contracts.rpc.slurm import Job
from clusterra_gateway.jobs.costs import costs_of, first_day, may_cost
from gateway_world import World
from hypothesis import given
from hypothesis import strategies as st

LIST = "/v1/clusters/main/jobs"
AT = datetime(2026, 11, 24, 12, tzinfo=UTC)


def listed_job(job_id: str, **fields: object) -> Job:
    return Job.model_validate(
        {"job_id": job_id, "name": "a", "user": "ada", "uid": 20001, "state": "RUNNING", "partition": "xs", **fields}
    )


times = st.none() | st.integers(0, 10**7).map(lambda seconds: AT - timedelta(seconds=seconds))
jobs = st.lists(
    st.builds(
        lambda number, started_at, ended_at, restarts: listed_job(
            str(number),
            submitted_at=AT - timedelta(seconds=2 * 10**7),
            started_at=started_at,
            ended_at=ended_at,
            restarts=restarts,
        ),
        st.integers(1, 50),
        times,
        times,
        st.integers(0, 2),
    ),
    max_size=30,
    unique_by=lambda job: job.job_id,
)


@given(jobs, st.dictionaries(st.integers(1, 50).map(str), st.none() | st.integers(0, 10**12)), st.booleans())
def test_each_job_has_a_cost_and_only_those_that_never_ran_cost_nothing(
    listed: list[Job], ledger: dict[str, int | None], incomplete: bool
) -> None:
    known = {id_: CostOfJob(job_id=id_, micro_usd=micro_usd, running=False) for id_, micro_usd in ledger.items()}

    found = costs_of(listed, known, AT, incomplete=incomplete)

    assert found.keys() == {job.job_id for job in listed}
    for job in listed:
        cost, micro_usd = found[job.job_id], ledger.get(job.job_id) if may_cost(job) else 0
        assert (cost.total is None) == (micro_usd is None)
        assert cost.unknown or not may_cost(job) or (job.job_id in ledger and not incomplete)


@given(jobs)
def test_no_job_ran_before_the_first_day_that_is_read(listed: list[Job]) -> None:
    first = first_day(listed, AT.date())

    assert AT.date() - timedelta(days=MAX_COST_DAYS) < first <= AT.date()
    assert all(first <= job.started_at.date() for job in listed if job.started_at is not None)


def test_the_ledger_is_asked_for_as_many_days_as_it_reads() -> None:
    old = listed_job("1", submitted_at=datetime(2020, 1, 1, tzinfo=UTC), started_at=None, restarts=1)

    assert first_day([old], date(2026, 11, 24)) == date(2026, 11, 24) - timedelta(days=MAX_COST_DAYS - 1)


async def test_a_page_has_its_costs_in_one_read(world: World) -> None:
    boss = await world.login("boss@acme.example")
    ran = {"started_at": now() - timedelta(minutes=1), "state": "RUNNING"}
    for number in ("1", "2", "3"):
        job = world.acme.add_job(number, state="PENDING")
        world.acme.jobs[number] = job.model_copy(update=ran if number != "3" else {})
    world.acme.events.list_costs[:] = [CostOfJob(job_id="1", micro_usd=72_500, running=True)]

    async with boss.get(LIST, params={"costs": "true"}) as answer:
        assert answer.status == 200
        costs = (await answer.json())["costs"]

    assert costs["1"]["total"] == {"amount": "0.072500", "currency": "USD"}
    assert (costs["2"]["total"], costs["2"]["unknown"]) == (None, True)
    assert costs["3"]["total"]["amount"] == "0.000000"
    (read,) = world.acme.events.list_cost_reads
    assert set(read.job_ids) == {"1", "2"}
    assert len(read.job_ids) <= MAX_COST_JOBS
    assert read.viewer is not None


async def test_the_ledger_is_not_asked_for_a_list_without_costs(world: World) -> None:
    boss = await world.login("boss@acme.example")
    job = world.acme.add_job("1")
    world.acme.jobs["1"] = job.model_copy(update={"started_at": now() - timedelta(minutes=1)})

    async with boss.get(LIST) as answer:
        told = await answer.json()

    assert told["costs"] is None
    assert world.acme.events.list_cost_reads == []
