"""Jobs are cancelled by a filter: which ones are chosen, and what is told of each."""

from typing import Any

import pytest
from clusterra_contracts.rpc.slurm import Job
from gateway_world import World

CANCEL = "/v1/clusters/main/jobs/cancel"


def add(world: World, job_id: str, **fields: Any) -> Job:
    job = world.acme.add_job(job_id).model_copy(update=fields)
    world.acme.jobs[job_id] = job
    return job


async def cancel(world: World, body: dict[str, Any], email: str = "ada@acme.example") -> dict[str, Any]:
    browser = await world.login(email)
    async with browser.post(CANCEL, json=body) as answer:
        assert answer.status == 200, await answer.text()
        told: dict[str, Any] = await answer.json()
        return told


async def test_a_dry_run_names_the_jobs_and_cancels_none(world: World) -> None:
    add(world, "1", partition="gpu")
    add(world, "2")

    told = await cancel(world, {"partition": "gpu", "dry_run": True})

    assert [(job["job_id"], job["outcome"]) for job in told["jobs"]] == [("1", "would_cancel")]
    assert (told["total"], world.acme.cancelled) == (1, [])


async def test_the_filter_is_the_callers_own_live_jobs(world: World) -> None:
    add(world, "1")

    await cancel(world, {"name": "hello", "state": ["PENDING"]})
    await cancel(world, {"user": "ada"}, "boss@acme.example")

    mine, theirs = world.acme.lists
    assert (mine.user, mine.name, mine.states) == ("ada", "hello", ("PENDING",))
    assert (theirs.user, theirs.states) == ("ada", ("PENDING", "RUNNING", "SUSPENDED"))
    assert (mine.viewer.admin, theirs.viewer.admin) == (False, True)


async def test_waiting_tasks_are_cancelled_without_the_running_ones(world: World) -> None:
    add(world, "7", state="PENDING", array_tasks="3-9%2")
    add(world, "7_1")
    add(world, "8")
    add(world, "9", state="PENDING", array_tasks="0,2,4,...")

    told = await cancel(world, {"array": "7"})
    shortened = await cancel(world, {"array": "9"})

    assert [job["outcome"] for job in told["jobs"]] == ["cancelled", "cancelled"]
    assert [asked.jobs for asked in world.acme.changes] == ["7_[3-9]"]
    assert world.acme.cancelled == ["7_1"]
    assert shortened["jobs"][0]["outcome"] == "failed"
    assert "cancel 9 itself" in shortened["jobs"][0]["detail"]


async def test_at_most_the_limit_is_cancelled_and_a_failure_hinders_no_other(world: World) -> None:
    for number in range(1, 6):
        add(world, str(number))
    add(world, "6", state="PENDING", array_tasks="1")
    world.acme.change_error = "conflict"

    some = await cancel(world, {"limit": 2})
    assert (len(some["jobs"]), some["total"], len(world.acme.cancelled)) == (2, 6, 2)

    every = await cancel(world, {})
    outcomes = {job["job_id"]: (job["outcome"], job["detail"]) for job in every["jobs"]}
    assert outcomes.pop("6") == ("failed", "refused as the test wants it")
    assert set(outcomes.values()) == {("cancelled", "")}


@pytest.mark.parametrize(
    "wrong", [{"state": ["COMPLETED"]}, {"limit": 0}, {"limit": 201}, {"array": "7_1"}, {"all": 1}]
)
async def test_a_wrong_filter_cancels_nothing(world: World, wrong: dict[str, Any]) -> None:
    add(world, "1")
    browser = await world.login("ada@acme.example")

    async with browser.post(CANCEL, json=wrong) as answer:
        assert answer.status == 400

    assert world.acme.cancelled == []
