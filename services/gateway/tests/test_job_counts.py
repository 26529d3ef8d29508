"""Counts of jobs by state, and the search among jobs: of those that the caller sees."""

import asyncio
import json

import pytest
from clusterra_gateway.jobs.filters import CountsQuery, JobsQuery
from gateway_world import World
from people_world import me
from test_cancel_many import add, cancel

JOBS = "/v1/clusters/main/jobs"
COUNTS = f"{JOBS}/counts"


async def test_jobs_are_counted_by_state_for_who_sees_them(world: World) -> None:
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")
    uid = (await me(ada))["uid"]
    for number, state in enumerate(("RUNNING", "RUNNING", "PENDING"), start=1):
        world.acme.add_job(str(number), state=state, uid=uid)
    world.acme.add_job("9", state="FAILED", uid=29999)

    async with ada.get(COUNTS) as answer:
        mine, position = await answer.json(), answer.headers["Event-Position"]
    async with boss.get(COUNTS) as answer:
        everybodys = await answer.json()

    assert mine == {"states": {"RUNNING": 2, "PENDING": 1}, "total": 3}
    assert everybodys == {"states": {"RUNNING": 2, "PENDING": 1, "FAILED": 1}, "total": 4}
    assert position.isdecimal()


async def test_counts_have_the_filters_of_the_list(world: World) -> None:
    ada = await world.login("ada@acme.example")
    query = {"user": "ada", "name": "fit", "search": "Fit", "partition": "gpu", "account": "a", "qos": "high"}
    times = {"submitted_after": "2026-01-01T00:00:00Z", "submitted_before": "2026-02-01T00:00:00Z"}

    async with ada.get(COUNTS, params=query | times) as answer:
        assert answer.status == 200, await answer.text()
    async with ada.get(JOBS, params=query | times) as answer:
        assert answer.status == 200, await answer.text()

    counted, listed = world.acme.lists
    assert counted == listed
    assert (counted.search, counted.name, counted.qos) == ("Fit", "fit", "high")
    assert set(JobsQuery.model_fields) - set(CountsQuery.model_fields) == {"state", "sort", "limit", "cursor", "costs"}


@pytest.mark.parametrize("query", ["state=RUNNING", "limit=10", "search=", f"search={'x' * 101}", "weather=fine"])
async def test_a_wrong_query_is_refused(world: World, query: str) -> None:
    ada = await world.login("ada@acme.example")

    async with ada.get(f"{COUNTS}?{query}") as answer:
        assert answer.status == 400
    async with ada.get("/v1/clusters/secret/jobs/counts") as answer:
        assert answer.status == 404, "of another tenant"


async def test_a_search_finds_parts_of_names_and_ids(world: World) -> None:
    ada = await world.login("ada@acme.example")
    for job_id, name in (("1", "Align reads"), ("2", "realignment"), ("31", "fit"), ("31_4", "fit")):
        add(world, job_id, name=name, uid=(await me(ada))["uid"])

    async def found(search: str) -> list[str]:
        async with ada.get(JOBS, params={"search": search}) as answer:
            return [job["job_id"] for job in (await answer.json())["jobs"]]

    assert await asyncio.gather(*map(found, ("ALIGN", "31", "31_4", "3", "weather"))) == [
        ["1", "2"],
        ["31", "31_4"],
        ["31_4"],
        [],
        [],
    ]
    told = await cancel(world, {"search": "align"})
    assert {job["job_id"] for job in told["jobs"]} == {"1", "2"}


async def test_a_proxy_that_cannot_search_yet_shows_and_cancels_nothing_else(world: World) -> None:
    ada = await world.login("ada@acme.example")
    for job_id, name in (("1", "align"), ("2", "fit")):
        add(world, job_id, name=name, uid=(await me(ada))["uid"])
    world.acme.searches = False

    async with ada.get(JOBS, params={"search": "align"}) as answer:
        refused = (answer.status, json.loads(await answer.text())["detail"])
    await cancel(world, {"search": "align"})

    assert refused == (503, "this cluster cannot search yet: it is being upgraded")
    assert world.acme.cancelled == ["1"]
