"""Jobs of templates on a whole lab, through the gateway."""

from typing import Any

from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User

JOB_SECONDS = 180.0
OUTPUT_SECONDS = 60.0


async def asked(user: User, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
    async with user.session.request(method, path, json=body) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


async def ended(user: User, job_id: str) -> str:
    """Slurm's state of a job after its end."""
    seen: list[str] = []

    async def is_over() -> bool:
        job = await asked(user, "GET", f"/v1/clusters/{user.cluster}/jobs/{job_id}")
        seen[:] = [job["state"]]
        return job["state"] not in {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING"}

    await until(is_over, seconds=JOB_SECONDS, what=f"the end of job {job_id}")
    return seen[0]


async def output(user: User, job_id: str) -> str:
    """The output of a job. An edge on a busy machine may be late: then the API says to try again, as users do."""
    said: list[str] = []

    async def read() -> bool:
        async with user.session.get(f"/v1/clusters/{user.cluster}/jobs/{job_id}/output") as answer:
            said[:] = [await answer.text()]
            assert answer.status in {200, 503}, said[0]
            return answer.status == 200

    await until(read, seconds=OUTPUT_SECONDS, what=f"the output of job {job_id}", every=0.5)
    return said[0]


async def completed(user: User, template_id: str, values: Any) -> str:
    """Submits a template, waits until its job has completed, and returns its output."""
    launched = await asked(user, "POST", f"/v1/launchables/{template_id}/submit", values, status=201)
    state = await ended(user, launched["job_id"])
    said = await output(user, launched["job_id"])
    assert state == "COMPLETED", said
    return said


async def missing_of_example(user: User, template_id: str) -> list[str]:
    """Runs a template's example, and returns what its check does not find in the output."""
    template = (await asked(user, "GET", f"/v1/templates/{template_id}"))["definition"]
    said = await completed(user, template_id, template["example"])
    return [each for each in template["check"]["output_contains"] if each not in said]
