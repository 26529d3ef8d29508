"""Why jobs wait, as Slurm has them and people ask: by HTTP, on the whole lab."""

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
from clusterra_lab.parts.user import UnexpectedAnswerError, User
from clusterra_lab.stack.stack import Stack

JOB = {"name": "why", "cpus_per_task": 1, "memory_per_cpu": 2 * GIB}
SCRIPT = "#!/bin/bash\nsleep 300\n"


@pytest.fixture
async def grace(lab: Stack) -> AsyncIterator[User]:
    async with lab.user("grace@acme.example") as user:
        yield user


async def why(user: User, job_id: str) -> Explanation | None:
    """None while the scaler has not heard of the job."""
    try:
        return await user.why(job_id)
    except UnexpectedAnswerError:
        return None


async def told(user: User, job_id: str, pattern: str) -> Explanation:
    async def found() -> Explanation | None:
        answer = await why(user, job_id)
        return answer if answer is not None and re.search(pattern, answer.text) else None

    return await until(found, seconds=120, every=0.05, what=f"an explanation of {job_id} like {pattern!r}")


async def test_from_an_empty_fleet_to_a_running_job(ada: User, observer: Observer) -> None:
    await until(lambda: observer.workers == {}, seconds=120, what="the fleet to be empty")
    job = await ada.submit(SCRIPT, {**JOB, "memory_per_cpu": 8 * GIB})
    answers: dict[str, Explanation] = {}

    async def runs() -> bool:
        answer = await why(ada, job.job_id)
        if answer is not None:
            kinds = [place.kind for place in answer.places]
            answers.setdefault("running" if answer.state == "running" else kinds[0] if kinds else answer.text, answer)
        return "running" in answers

    try:
        await until(runs, seconds=120, every=0.0, what="the job to run, by its explanation")
        booting, running = answers["booting"], answers["running"]
        (place,) = booting.places
        assert re.fullmatch(
            rf"It waits for the worker {place.worker}, which has been booting for \d+ s\.", booting.text
        )
        assert (booting.state, booting.cause, place.shape) == ("pending", "nodes", "memory-xs")
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


async def test_what_no_worker_would_start(ada: User) -> None:
    begins = int(time.time()) + 3600
    first = await ada.submit(SCRIPT, {**JOB, "hold": True})
    jobs = [first.job_id]
    try:
        held = await told(ada, first.job_id, "held by its owner")
        assert (held.cause, held.reason, held.places, held.bought) == ("hold", "JobHeldUser", (), ())

        async def explained(asked: dict[str, Any], pattern: str) -> Explanation:
            jobs.append((await ada.submit(SCRIPT, {**JOB, **asked})).job_id)
            return await told(ada, jobs[-1], pattern)

        dependent = await explained({"dependency": f"afterok:{first.job_id}"}, "It waits for jobs that it depends on")
        assert (dependent.cause, dependent.expected_start) == ("dependency", None)
        moment = datetime.fromtimestamp(begins, UTC)
        later = await explained({"begin_time": begins}, f"will not start before {moment:%Y-%m-%d %H:%M:%S} UTC")
        assert (later.cause, later.usd_per_hour) == ("time", None)
        array = await explained({"array": "1-3", "hold": True}, "held")
        assert await told(ada, f"{array.job_id}_2", "held by its owner")
    finally:
        for job_id in jobs:
            await ada.cancel(job_id)


async def test_who_may_ask(ada: User, grace: User) -> None:
    hers = await grace.submit(SCRIPT, {**JOB, "hold": True})
    his = await ada.submit(SCRIPT, {**JOB, "hold": True})
    try:
        # Ada is an administrator.
        for user, job_id in ((grace, hers.job_id), (ada, hers.job_id), (ada, his.job_id)):
            await told(user, job_id, "held")
        for job_id in (his.job_id, "999999"):
            with pytest.raises(UnexpectedAnswerError, match="404"):
                await grace.why(job_id)
    finally:
        await grace.cancel(hers.job_id)
        await ada.cancel(his.job_id)
