"""An estimate over HTTP on the whole lab: what it says before the submit is what happens after it."""

from decimal import Decimal
from typing import Any

import pytest
from clusterra_lab.demo.observer import Observer
from clusterra_lab.demo.scenario import GIB
from clusterra_lab.machine.process import until
from clusterra_lab.parts.api_errors import UnexpectedAnswerError
from clusterra_lab.parts.user import JobExplanation, User

SCRIPT = "#!/bin/bash\n#SBATCH --time=30\nsleep 300\n"
JOB = {"name": "estimated", "cpus_per_task": 1, "memory_per_cpu": 8 * GIB}


async def post(user: User, path: str, script: str = SCRIPT, **job: Any) -> tuple[int, dict[str, Any]]:
    body = {"script": script, "job": {"environment": ["PATH=/usr/bin:/bin"], **JOB, **job}}
    async with user.session.post(f"/v1/clusters/{user.cluster}/jobs/{path}", json=body) as answer:
        return answer.status, await answer.json()


async def test_the_estimate_of_a_job_is_what_the_job_then_gets(ada: User, observer: Observer) -> None:
    await until(lambda: observer.workers == {}, seconds=120, what="an empty fleet")

    status, estimate = await post(ada, "estimate")
    dry_status, dry = await post(ada, "submit?dry_run=true")

    assert (status, dry_status) == (200, 200), (estimate, dry)
    assert (estimate["wait"], dry["wait"]) == ("boot", "boot")
    assert estimate["workers"] == dry["workers"] == [{"kind": "new", "shape": "memory-xs", "count": 1}]
    assert estimate["time_limit_seconds"] == 1800
    cost = {name: Decimal(estimate["cost"][name]) for name in ("per_hour", "at_most", "total_at_most")}
    assert cost["at_most"] == cost["total_at_most"] == cost["per_hour"] / 2
    assert observer.workers == {}

    job = await ada.submit(SCRIPT, JOB)

    async def runs() -> JobExplanation | None:
        try:
            found = await ada.why(job.job_id)
        except UnexpectedAnswerError:
            return None
        return found if found.state == "running" and found.usd_per_hour else None

    try:
        running = await until(runs, seconds=120, what="the job to run", every=0.1)
        assert [place.shape for place in running.places] == ["memory-xs"]
        assert running.usd_per_hour == pytest.approx(float(cost["per_hour"]), abs=0.0000005)
    finally:
        await ada.cancel(job.job_id)

    async def ended() -> JobExplanation | None:
        found = await ada.why(job.job_id)
        return found if found.state == "ended" else None

    assert (await until(ended, seconds=60, what="how the job ended", every=0.1)).final_state == "CANCELLED"
    async with ada.session.get(f"/v1/clusters/{ada.cluster}/fleet") as answer:
        fleet = await answer.json()
    assert ("memory-xs", 1) in {(each["shape"], each["desired"]) for each in fleet["changes"]}


async def test_an_array_is_estimated_as_a_whole(ada: User) -> None:
    status, estimate = await post(ada, "estimate", SCRIPT.replace("sleep", "#SBATCH --array=0-9%2\nsleep"))

    assert (status, estimate["tasks"], estimate["expected_last_start"]) == (200, 10, None)
    at_most, total = (Decimal(estimate["cost"][name]) for name in ("at_most", "total_at_most"))
    # Each amount is rounded to a millionth of a dollar by itself.
    assert abs(total - 10 * at_most) <= 10 * Decimal("0.0000005")


async def test_what_no_worker_could_run_is_refused_as_by_a_submit(ada: User) -> None:
    answers = [await post(ada, path, cpus_per_task=33) for path in ("estimate", "submit?dry_run=true", "submit")]

    assert {status for status, _ in answers} == {422}
    assert len({problem["detail"] for _, problem in answers}) == 1
