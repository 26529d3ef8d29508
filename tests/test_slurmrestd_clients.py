"""A client made for slurmrestd lists, submits, reads, changes and cancels through the gateway of a running lab."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack

VERSIONS = ("v0.0.42", "v0.0.45")
SCRIPT = "#!/bin/sh\ntrue\n"
JOB = {"name": "passed-on", "environment": ["PATH=/usr/bin:/bin"], "begin_time": {"set": True, "number": 4_000_000_000}}


@pytest.fixture
async def clients(lab: Stack, ada: User) -> AsyncIterator[tuple[aiohttp.ClientSession, aiohttp.ClientSession]]:
    """Programs of two people, who send their tokens as clients of slurmrestd do."""
    async with AsyncExitStack() as opened:
        grace = await opened.enter_async_context(lab.user("grace@acme.example"))
        programs = []
        for user in (ada, grace):
            token = await opened.enter_async_context(user.api_token("slurmrestd"))
            headers = {"X-SLURM-USER-TOKEN": token, "X-SLURM-USER-NAME": "root"}
            programs.append(await opened.enter_async_context(aiohttp.ClientSession(lab.gateway_url, headers=headers)))
        yield programs[0], programs[1]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_client_of_slurmrestd_works_with_its_own_jobs_alone(
    clients: tuple[aiohttp.ClientSession, aiohttp.ClientSession], ada: User, version: str
) -> None:
    slurm, slurmdb = (f"/v1/clusters/{ada.cluster}/{family}/{version}" for family in ("slurm", "slurmdb"))
    mine, other = clients

    async def told(client: aiohttp.ClientSession, method: str, path: str, **more: Any) -> tuple[int, dict[str, Any]]:
        async with client.request(method, path, **more) as answer:
            return answer.status, await answer.json()

    async def listed(client: aiohttp.ClientSession, path: str) -> set[int]:
        status, answer = await told(client, "GET", path)
        assert (status, answer["errors"]) == (200, [])
        return {job["job_id"] for job in answer["jobs"]}

    status, submitted = await told(
        mine, "POST", f"{slurm}/job/submit", json={"script": SCRIPT, "job": JOB | {"user_id": "root", "comment": "x"}}
    )
    job_id = submitted["job_id"]

    assert (status, submitted["errors"]) == (200, [])
    await until(lambda: _has(listed(mine, f"{slurm}/jobs/"), job_id), seconds=60, what="the job in the list")
    assert job_id not in await listed(other, f"{slurm}/jobs/")
    assert (await told(other, "GET", f"{slurm}/job/{job_id}"))[0] == 404
    assert (await told(other, "DELETE", f"{slurm}/job/{job_id}"))[0] in (403, 404)
    _, read = await told(mine, "GET", f"{slurm}/job/{job_id}")
    assert (read["jobs"][0]["name"], read["jobs"][0]["user_id"]) == ("passed-on", ada.profile.uid)
    assert read["jobs"][0]["comment"].startswith("clusterra:")

    assert (await told(mine, "POST", f"{slurm}/job/{job_id}", json={"name": "renamed"}))[0] == 200
    _, read = await told(mine, "GET", f"{slurm}/job/{job_id}")
    assert read["jobs"][0]["name"] == "renamed"

    assert (await told(mine, "DELETE", f"{slurm}/job/{job_id}"))[0] == 200
    _, read = await told(mine, "GET", f"{slurm}/job/{job_id}")
    assert "CANCELLED" in read["jobs"][0]["job_state"]

    async def accounted() -> bool:
        return (await told(mine, "GET", f"{slurmdb}/job/{job_id}"))[0] == 200

    await until(accounted, seconds=60, what="the job in accounting", every=0.2)
    assert (await told(other, "GET", f"{slurmdb}/job/{job_id}"))[0] == 404
    assert job_id not in await listed(other, f"{slurmdb}/jobs/?users={ada.profile.uid}&step={job_id}")
    for path in ("ping/", "diag/", "nodes/", "partitions/"):
        assert (await told(mine, "GET", f"{slurm}/{path}"))[0] == 200


async def _has(listing: Any, job_id: int) -> bool:
    return job_id in await listing


@pytest.mark.parametrize("query", ["state=none", "qos=none", "node=[broken", "node=x[1-999999999]", "users=none"])
async def test_a_filter_that_slurmdbd_cannot_use_is_an_error_of_the_client(
    clients: tuple[aiohttp.ClientSession, aiohttp.ClientSession], ada: User, query: str
) -> None:
    async with clients[0].get(f"/v1/clusters/{ada.cluster}/slurmdb/v0.0.45/jobs/?{query}") as answer:
        told = await answer.json()

    assert answer.status == 422, told
    assert told["errors"]
