"""Quotas on real Slurm: what fits runs, over HTTP and by sbatch, and the real costs count afterwards."""

import asyncio
from typing import Any

from clusterra_contracts.events import JobActionFact
from clusterra_contracts.identity import SlurmUser
from clusterra_lab.demo.observer import Observer
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from gates import closed_gate
from members import service_account

MINUTES = 10
JOB = {"environment": ["PATH=/usr/bin:/bin"], "memory_per_cpu": 512, "time_limit": MINUTES}
SCRIPT = "#!/bin/bash\n"
MICRO_USD = -(-72_500 * MINUTES // (2 * 60))
"""One of the two CPUs of a compute-xs, which costs 0.0725 USD per hour."""
ENDS = ("job.completed", "job.cancelled", "job.failed", "job.timeout")


async def set_quota(admin: User, user: User, micro_usd: int, mode: str) -> None:
    body = {"limit": f"{micro_usd / 1_000_000:.6f}", "mode": mode}
    async with admin.session.put(f"/v1/quotas/user/{user.profile.name}", json=body) as answer:
        assert answer.status == 200, await answer.text()


async def quota_of(user: User) -> dict[str, Any]:
    async with user.session.get("/v1/quotas") as answer:
        (found,) = (await answer.json())["quotas"]
        return dict(found)


async def submit(user: User, number: int, script: str) -> tuple[int, dict[str, Any]]:
    async with user.session.post(
        f"/v1/clusters/{user.cluster}/jobs/submit",
        json={"script": script, "job": JOB},
        headers={"Idempotency-Key": f"quota-{user.profile.name}-{number:03d}"},
    ) as answer:
        return answer.status, await answer.json()


async def ended(observer: Observer, jobs: list[str]) -> None:
    for job in jobs:
        await until(
            lambda: any((job, kind) in observer.job_events for kind in ENDS),  # noqa: B023
            seconds=240,
            what=f"the end of job {job}",
        )


def of_kind(observer: Observer, jobs: list[str], kind: str) -> list[str]:
    """The jobs of which there is an event of this kind."""
    return [job for job in jobs if (job, kind) in observer.job_events]


async def test_of_fifty_submits_at_a_quota_for_ten_exactly_ten_run(lab: Stack, ada: User, observer: Observer) -> None:
    async with service_account(lab, ada, "quincy") as quincy:
        await set_quota(ada, quincy, 10 * MICRO_USD, "block")
        # What a job really cost makes room for others at its end.
        gate = closed_gate(lab)

        answers = await asyncio.gather(*(submit(quincy, number, SCRIPT + gate.wait) for number in range(50)))
        accepted = [answer["job_id"] for status, answer in answers if status == 201]
        full = await quota_of(quincy)
        gate.open()
        await ended(observer, accepted)

        async def settled() -> bool:
            used = float((await quota_of(quincy))["used"]["amount"])
            return 0 < used < 10 * MICRO_USD / 1_000_000 / 2

        await until(settled, seconds=120, what="the real costs in place of the reserved ones")

        async def exact() -> bool:
            cost = 0.0
            for job in accepted:
                async with quincy.session.get(f"/v1/clusters/{quincy.cluster}/jobs/{job}") as answer:
                    cost += float((await answer.json())["cost"]["total"]["amount"])
            return abs(float((await quota_of(quincy))["used"]["amount"]) - cost) < 1e-9

        await until(exact, seconds=60, what="exactly the real costs")

    assert sorted(status for status, _ in answers) == [201] * 10 + [403] * 40
    assert all((job, "job.completed") in observer.job_events for job in accepted)
    assert float(full["left"]["amount"]) < MICRO_USD / 1_000_000


async def test_of_fifty_jobs_by_http_and_sbatch_at_a_quota_for_ten_exactly_ten_run(
    lab: Stack, ada: User, observer: Observer
) -> None:
    async with service_account(lab, ada, "quinn") as quinn:
        owner = SlurmUser(name=quinn.profile.name, uid=quinn.profile.uid, gid=quinn.profile.uid)
        await set_quota(ada, quinn, 10 * MICRO_USD, "block")
        gate = closed_gate(lab)
        script = SCRIPT + gate.wait

        # Held, because a quota that blocks ends nothing that runs, and these start as soon as a worker is free.
        options = (f"--time={MINUTES}", "--mem-per-cpu=512", "--ntasks=1", "--hold")
        http, by_sbatch = await asyncio.gather(
            asyncio.gather(*(submit(quinn, number, script) for number in range(25))),
            asyncio.gather(*(lab.slurm.sbatch(owner, script, *options) for _ in range(25))),
        )
        jobs = [answer["job_id"] for status, answer in http if status == 201] + list(by_sbatch)
        await until(
            lambda: len(of_kind(observer, jobs, "job.cancelled")) >= len(jobs) - 10,
            seconds=240,
            what="the cancels of all jobs beyond the quota",
            every=0.1,
        )
        gate.open()
        kept = [job for job in by_sbatch if (job, "job.cancelled") not in observer.job_events]
        if kept:
            await lab.slurm.run("scontrol", "release", ",".join(kept))
        await ended(observer, jobs)

    completed = of_kind(observer, jobs, "job.completed")
    cancelled = of_kind(observer, jobs, "job.cancelled")
    assert (len(completed), len(completed) + len(cancelled)) == (10, len(jobs))
    assert set(cancelled) <= set(by_sbatch)
    actors = {
        event.data.actor
        for event in await ada.history("action.cancel")
        if isinstance(event.data, JobActionFact) and event.data.job_id in cancelled
    }
    assert actors == {"clusterra-quota"}


async def test_a_quota_that_kills_ends_running_jobs_by_name(lab: Stack, ada: User, observer: Observer) -> None:
    async with service_account(lab, ada, "quentin") as quentin:
        await set_quota(ada, quentin, 3 * MICRO_USD, "block")
        gate = closed_gate(lab)
        jobs = [(await submit(quentin, number, SCRIPT + gate.wait))[1]["job_id"] for number in range(2)]
        for job in jobs:
            await until(lambda: (job, "job.running") in observer.job_events, seconds=120, what="both jobs")  # noqa: B023

        await set_quota(ada, quentin, 3 * MICRO_USD // 2, "block_and_kill")
        await ended(observer, jobs[1:])
        gate.open()
        await ended(observer, jobs[:1])

    assert (jobs[0], "job.completed") in observer.job_events
    assert (jobs[1], "job.cancelled") in observer.job_events


async def test_no_change_of_a_job_gets_around_a_quota(lab: Stack, ada: User, observer: Observer) -> None:
    async with service_account(lab, ada, "quirin") as quirin:
        await set_quota(ada, quirin, 2 * MICRO_USD, "block")
        path = f"/v1/clusters/{quirin.cluster}/jobs"
        body = {"script": SCRIPT, "job": JOB | {"hold": True}}
        async with quirin.session.post(f"{path}/submit", json=body) as answer:
            job = (await answer.json())["job_id"]

        statuses = []
        for change in ({"time_limit": 3 * MINUTES}, {"tasks": 3}, {"time_limit": 2 * MINUTES}, {"tasks": 2}):
            async with quirin.session.patch(f"{path}/{job}", json=change) as answer:
                statuses.append(answer.status)
        full = await quota_of(quirin)
        await lab.slurm.run("scontrol", "update", f"jobid={job}", f"timelimit={5 * MINUTES}")
        await ended(observer, [job])

    async def actors() -> set[str]:
        cancels = [event.data for event in await ada.history("action.cancel")]
        return {each.actor for each in cancels if isinstance(each, JobActionFact) and each.job_id == job}

    # The archive may have the event a moment later.
    assert await until(actors, seconds=60, what="who cancelled the job") == {"clusterra-quota"}
    assert statuses == [403, 403, 204, 403]
    assert float(full["left"]["amount"]) < MICRO_USD / 1_000_000
