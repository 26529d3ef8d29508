"""After the end of a job, `why` still tells which shapes were not taken when workers were bought for it."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from clusterra_contracts.alternatives import Alternative
from clusterra_contracts.events import Event, JobFact, ScaleFact, ShapeChange, event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.history import HistoryPage, ReadHistory
from clusterra_gateway.bus.requests import HistoryRequests
from clusterra_gateway.jobs import past_alternatives
from gateway_world import World

REF = ClusterRef(tenant="acme", cluster="main")
CHOSEN = Alternative(
    shape="compute-xs", usd_per_hour=0.1, verdict="chosen", job_usd_per_hour=0.05, expected_usd=0.02, text="It."
)
REJECTED = Alternative(shape="memory-xl", usd_per_hour=2.5, verdict="costlier", job_usd_per_hour=0.3, text="Dear.")


def bought(when: datetime, *job_ids: str, compared: tuple[str, ...], generation: int = 3, **more: Any) -> Event:
    change = ShapeChange(
        shape="compute-xs",
        replicas_before=0,
        replicas_after=1,
        reason="1 more",
        job_ids=job_ids,
        compared_jobs=compared,
        alternatives=more.get("alternatives", (CHOSEN, REJECTED)),
    )
    fact = ScaleFact(generation=generation, fence=1, snapshot_generation=1, changes=(change,))
    return event_of("scaler", REF, fact, version=str(generation), time=when)


async def why(world: World, job_id: str = "7", email: str = "ada@acme.example") -> tuple[int, Any]:
    async with (await world.login(email)).get(f"/v1/clusters/main/jobs/{job_id}/why") as answer:
        return answer.status, await answer.json()


def ended(world: World, job_id: str = "7", **more: Any) -> datetime:
    """A job that has ended, and when it was submitted."""
    world.acme.scaler.unexplained = "not_found"
    job = world.acme.add_job(job_id, state="COMPLETED", **more)
    start = job.submitted_at + timedelta(seconds=40)
    update = {"started_at": start, "ended_at": start + timedelta(seconds=9), "exit_code": 0}
    world.acme.jobs[job_id] = job.model_copy(update=update)
    return job.submitted_at


async def test_the_owner_reads_what_was_compared_for_a_job_that_has_ended(world: World) -> None:
    submitted = ended(world)
    world.acme.events.archived = [
        bought(submitted + timedelta(seconds=2), "7", "8", compared=("7", "8"), generation=4),
        bought(submitted + timedelta(seconds=1), "7", compared=("7",), alternatives=(CHOSEN,)),
    ]

    status, found = await why(world)

    assert (status, found["state"]) == (200, "ended")
    assert [(each["shape"], each["verdict"]) for each in found["alternatives"]] == [
        ("compute-xs", "chosen"),
        ("memory-xl", "costlier"),
    ]
    assert found["alternatives"][1]["job_usd_per_hour"] == "0.300000"
    assert datetime.fromisoformat(found["alternatives_as_of"]) == submitted + timedelta(seconds=2)
    asked = next(each for each in world.acme.events.histories if each.kinds == ("scale.decided",))
    assert (asked.after, asked.before, asked.newest_first) == (submitted, submitted + timedelta(seconds=41), True)
    assert (await why(world, email="bob@acme.example"))[0] == 404


async def test_what_was_compared_for_a_job_with_another_request_is_not_told(world: World) -> None:
    submitted = ended(world, "8")
    ended(world, "9")
    world.acme.events.archived = [bought(submitted, "7", "8", "9", compared=("7", "9"))]

    assert (await why(world, "8"))[1]["alternatives"] == []
    assert (await why(world, "8"))[1]["alternatives_as_of"] is None
    assert (await why(world, "9"))[1]["alternatives"]


async def test_a_task_has_what_was_compared_for_its_array(world: World) -> None:
    submitted = ended(world, "7_3")
    world.acme.events.archived = [bought(submitted, "7", compared=("7",))]

    assert len((await why(world, "7_3"))[1]["alternatives"]) == 2


@pytest.mark.parametrize("archive", ["old", "away"])
async def test_a_decision_of_an_older_release_and_an_archive_that_is_away_tell_nothing(
    world: World, archive: str
) -> None:
    submitted = ended(world)
    compared = ("7",) if archive == "away" else ()
    more: dict[str, Any] = {} if archive == "away" else {"alternatives": ()}
    world.acme.events.archived = [bought(submitted, "7", compared=compared, **more)]
    if archive == "away":
        world.acme.events.history_fails_after = 0

    status, found = await why(world)

    assert (status, found["alternatives"]) == (200, [])


async def test_a_slow_archive_tells_nothing_after_some_seconds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted = ended(world)
    world.acme.events.archived = [bought(submitted, "7", compared=("7",))]
    answered = HistoryRequests.history
    given_up: list[ReadHistory] = []

    async def slow(self: HistoryRequests, ref: ClusterRef, request: ReadHistory) -> HistoryPage:
        if request.kinds == ("scale.decided",):
            try:
                await asyncio.Event().wait()
            finally:
                given_up.append(request)
        return await answered(self, ref, request)

    monkeypatch.setattr(HistoryRequests, "history", slow)
    monkeypatch.setattr(past_alternatives, "SEARCH_SECONDS", 0.01)

    async with asyncio.timeout(90):
        status, found = await why(world)

    assert (status, found["alternatives"], found["alternatives_as_of"]) == (200, [], None)
    assert given_up, "the archive was asked"


async def test_a_job_that_slurm_has_forgotten_has_them_too(world: World) -> None:
    world.acme.scaler.unexplained = "not_found"
    submitted = now() - timedelta(hours=1)
    fact = JobFact(
        kind="job.completed",
        job_id="7",
        name="x",
        user="ada",
        uid=20001,
        partition="main",
        state="COMPLETED",
        submitted_at=submitted,
        started_at=submitted + timedelta(seconds=5),
        ended_at=submitted + timedelta(seconds=9),
    )
    world.acme.events.archived = [
        event_of("proxy", REF, fact, version="1", time=now()),
        bought(submitted, "7", compared=("7",)),
    ]

    assert len((await why(world))[1]["alternatives"]) == 2
