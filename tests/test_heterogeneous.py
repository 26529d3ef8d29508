"""A heterogeneous job over HTTP: its components get workers of their own, run together, and cost together."""

from decimal import Decimal
from typing import Any

from clusterra_lab.demo.observer import Observer
from clusterra_lab.demo.scenario import GIB
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User

SCRIPT = """\
#!/bin/sh
#SBATCH --time=10
srun --het-group=0,1 --label sh -c 'echo $SLURM_CPUS_ON_NODE CPUs on $SLURMD_NODENAME'
sleep 2
"""
ENVIRONMENT = ["PATH=/usr/bin:/bin"]
JOBS = [
    {"environment": ENVIRONMENT, "name": "of-two", "tasks": 1, "memory_per_cpu": 512},
    {"environment": ENVIRONMENT, "tasks": 1, "cpus_per_task": 2, "memory_per_cpu": 4 * GIB, "time_limit": 10},
]
KEY = {"Idempotency-Key": "heterogeneous-lab-1"}


async def post(user: User, path: str, headers: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    body = {"script": SCRIPT, "jobs": JOBS}
    async with user.session.post(f"/v1/clusters/{user.cluster}/jobs/{path}", json=body, headers=headers) as answer:
        return answer.status, await answer.json()


async def read(user: User, job_id: str) -> dict[str, Any]:
    async with user.session.get(f"/v1/clusters/{user.cluster}/jobs/{job_id}") as answer:
        assert answer.status == 200, await answer.text()
        found: dict[str, Any] = await answer.json()
        return found


async def test_components_run_together_on_workers_of_their_own_and_leave_none_behind(
    ada: User, observer: Observer
) -> None:
    await until(lambda: observer.workers == {}, seconds=120, what="an empty fleet")

    _, estimate = await post(ada, "estimate")
    status, submitted = await post(ada, "submit", KEY)
    repeated_status, repeated = await post(ada, "submit", KEY)
    first = submitted["job_id"]
    components = (await read(ada, first))["het_components"]
    await until(
        lambda: all((job, "job.completed") in observer.job_events for job in components),
        seconds=120,
        what="the end of all components",
    )

    async def priced() -> list[Decimal] | None:
        costs = [(await read(ada, job))["cost"]["total"] for job in components]
        return [Decimal(each["amount"]) for each in costs] if all(costs) else None

    costs = await until(priced, seconds=60, what="what each component cost")
    jobs = [await read(ada, job) for job in components]
    output = await ada.output(first)
    await until(lambda: observer.workers == {}, seconds=120, what="no worker after the job")

    assert submitted["warnings"] == []
    assert (status, repeated_status, repeated["job_id"], repeated["repeated"]) == (201, 201, first, True)
    assert [(job["name"], job["het_job_id"], job["het_offset"]) for job in jobs] == [
        ("of-two", first, 0),
        ("of-two", first, 1),
    ]
    assert len({node for job in jobs for node in job["nodes"]}) == 2
    assert sorted(line.split()[-1] for line in output.splitlines()) == sorted(
        node for job in jobs for node in job["nodes"]
    )
    assert all(cost > 0 for cost in costs)
    assert (estimate["nodes"], estimate["wait"]) == (2, "boot")
    assert sum(costs) < Decimal(estimate["cost"]["total_at_most"])
