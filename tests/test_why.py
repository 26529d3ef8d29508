"""Explanations of waiting and running jobs over HTTP, on the whole lab."""

import re
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from clusterra_contracts.rpc.why import Explanation
from clusterra_lab.demo.observer import Observer
from clusterra_lab.demo.scenario import GIB
from clusterra_lab.machine.process import until
from clusterra_lab.parts.api_errors import UnexpectedAnswerError
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack

JOB = {"name": "why", "cpus_per_task": 1, "memory_per_cpu": 2 * GIB}
SCRIPT = "#!/bin/bash\nsleep 300\n"


@pytest.fixture
async def grace(lab: Stack) -> AsyncIterator[User]:
    async with lab.user("grace@acme.example") as user:
        yield user


async def why(user: User, job_id: str) -> Explanation | None:
    """The explanation of a job; None while the scaler does not know the job."""
    try:
        return await user.why(job_id)
    except UnexpectedAnswerError:
        return None


async def explained(user: User, job_id: str, pattern: str) -> Explanation:
    """Wait for an explanation whose text matches the pattern."""

    async def matching() -> Explanation | None:
        answer = await why(user, job_id)
        return answer if answer is not None and re.search(pattern, answer.text) else None

    return await until(matching, seconds=120, every=0.05, what=f"an explanation of {job_id} like {pattern!r}")


async def test_a_job_is_explained_from_an_empty_fleet_until_it_runs(ada: User, observer: Observer) -> None:
    await until(lambda: observer.workers == {}, seconds=120, what="an empty fleet")

    job = await ada.submit(SCRIPT, {**JOB, "memory_per_cpu": 8 * GIB})
    answers: dict[str, Explanation] = {}

    async def runs() -> bool:
        answer = await why(ada, job.job_id)
        if answer is not None:
            kinds = [place.kind for place in answer.places]
            answers.setdefault("running" if answer.state == "running" else kinds[0] if kinds else answer.text, answer)
        return "running" in answers

    try:
        await until(runs, seconds=120, every=0.0, what="an explanation that the job runs")
        booting, running = answers["booting"], answers["running"]
        (place,) = booting.places
        assert re.fullmatch(
            rf"It waits for the worker {place.worker}, which has been booting for \d+ s\.", booting.text
        )
        assert (booting.state, booting.cause, place.shape) == ("pending", "nodes", "memory-xs")
        for each in (booting, running):
            assert (each.alternatives[0].shape, each.alternatives[0].verdict) == ("memory-xs", "chosen")
            assert "too_small" in {other.verdict for other in each.alternatives[1:]}
        assert booting.usd_per_hour
        assert booting.usd_per_hour == pytest.approx(running.usd_per_hour)
        (bought,) = booting.bought
        assert (bought.shape, bought.workers) == ("memory-xs", 1)
        assert bought.reason == f"1 more for pending job {job.job_id}"
        assert bought.decided_at >= job.accepted_at
        assert running.text.startswith(f"It has been running on {place.worker} since ")
        assert (running.bought, running.reason, running.cause) == (booting.bought, "", None)
        assert [each.worker for each in running.places] == [place.worker]
        assert running.started_at is not None
    finally:
        await ada.cancel(job.job_id)


async def test_the_timeline_of_a_job_leads_from_its_submit_to_its_end(ada: User, observer: Observer) -> None:
    await until(lambda: observer.workers == {}, seconds=120, what="an empty fleet")
    job = await ada.submit("#!/bin/bash\nexit 3\n", {**JOB, "memory_per_cpu": 8 * GIB})

    async def ended() -> list[dict[str, Any]] | None:
        async with ada.session.get(f"/v1/clusters/{ada.cluster}/jobs/{job.job_id}/timeline") as answer:
            body = await answer.json()
        stages = body["stages"] if answer.status == 200 else []
        # The archive has each event a moment after it happened.
        known = {each["stage"] for each in stages if each["at"] is not None}
        return stages if known >= {"decided", "worker_started", "registered", "running", "ended"} else None

    stages = await until(ended, seconds=120, every=0.2, what="the whole timeline")
    assert [each["stage"] for each in stages] == [
        *("submitted", "decided", "worker_started", "registered", "running", "ended"),
    ]
    _, decided, started, registered, running, end = stages
    assert (decided["shape"], decided["reason"]) == ("memory-xs", f"1 more for pending job {job.job_id}")
    assert decided["decision_generation"] > 0
    assert started["worker"] == registered["worker"] == running["worker"]
    assert end["detail"] == "FAILED with the exit code 3"
    assert all(each["seconds_since_previous"] >= 0 for each in stages[1:])


async def test_another_policy_is_simulated_and_changes_nothing(ada: User, grace: User, observer: Observer) -> None:
    await until(lambda: observer.workers == {}, seconds=120, what="an empty fleet")
    path, asked = f"/v1/clusters/{ada.cluster}/simulations", {"policy": {"warm": {"memory-xs": 1}}}

    async def simulated() -> dict[str, Any] | None:
        async with ada.session.post(path, json=asked) as answer:
            body: dict[str, Any] = await answer.json()
        # The targets of workers that have just gone may be in the last decision still.
        return body if answer.status == 200 and not body["present"]["shapes"] else None

    found = await until(simulated, seconds=90, every=0.2, what="a simulation on an empty fleet")
    async with grace.session.post(path, json=asked) as refused:
        assert refused.status == 403

    (warm,) = found["changed"]["shapes"]
    assert (warm["shape"], warm["workers"], warm["new"]) == ("memory-xs", 1, 1)
    assert found["changed"]["usd_per_hour"] == warm["usd_per_hour"]
    assert observer.workers == {}


async def test_jobs_that_no_worker_would_start_are_explained(ada: User) -> None:
    begins = int(time.time()) + 3600
    first = await ada.submit(SCRIPT, {**JOB, "hold": True})
    jobs = [first.job_id]
    try:
        held = await explained(ada, first.job_id, "held by its owner")
        assert (held.cause, held.reason, held.places, held.bought) == ("hold", "JobHeldUser", (), ())

        async def submit_explained(fields: dict[str, Any], pattern: str) -> Explanation:
            jobs.append((await ada.submit(SCRIPT, {**JOB, **fields})).job_id)
            return await explained(ada, jobs[-1], pattern)

        dependent = await submit_explained(
            {"dependency": f"afterok:{first.job_id}"}, "It waits for jobs that it depends on"
        )
        assert (dependent.cause, dependent.expected_start) == ("dependency", None)
        moment = datetime.fromtimestamp(begins, UTC)
        later = await submit_explained({"begin_time": begins}, f"will not start before {moment:%Y-%m-%d %H:%M:%S} UTC")
        assert (later.cause, later.usd_per_hour) == ("time", None)
        array = await submit_explained({"array": "1-3", "hold": True}, "held")
        assert await explained(ada, f"{array.job_id}_2", "held by its owner")
    finally:
        for job_id in jobs:
            await ada.cancel(job_id)


async def test_owners_and_administrators_may_ask_why_a_job_waits(ada: User, grace: User) -> None:
    of_grace = await grace.submit(SCRIPT, {**JOB, "hold": True})
    of_ada = await ada.submit(SCRIPT, {**JOB, "hold": True})
    try:
        # Ada is an administrator.
        for user, job_id in ((grace, of_grace.job_id), (ada, of_grace.job_id), (ada, of_ada.job_id)):
            await explained(user, job_id, "held")
        for job_id in (of_ada.job_id, "999999"):
            with pytest.raises(UnexpectedAnswerError, match="404"):
                await grace.why(job_id)
    finally:
        await grace.cancel(of_grace.job_id)
        await ada.cancel(of_ada.job_id)


async def test_a_job_that_could_not_begin_says_why(ada: User, lab: Stack) -> None:
    path = lab.slurm.shared_path
    closed = await ada.submit(SCRIPT, {**JOB, "standard_output": f"{path}/home/of-nobody/x.out"})
    missing = await ada.submit(SCRIPT, {**JOB, "current_working_directory": f"{path}/of-nobody"})

    for job_id, text in (
        (closed.job_id, f"the output file could not be opened ({path}/home/of-nobody/x.out)"),
        (missing.job_id, "its working directory does not exist on its worker"),
    ):
        # Until the scaler has a snapshot without the job, the job runs.
        async def says_so(job_id: str = job_id, text: str = text) -> bool:
            async with ada.session.get(f"/v1/clusters/{ada.cluster}/jobs/{job_id}/why") as answer:
                return text in (await answer.json()).get("text", "")

        await until(says_so, seconds=120, every=0.2, what=f"the reason of job {job_id}: {text}")
