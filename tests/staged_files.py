"""Files of people in the bucket, and the staging of jobs, on a whole lab."""

import hashlib
from typing import Any

from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from yarl import URL


def cluster_path(lab: Stack, rest: str) -> str:
    return f"/v1/clusters/{lab.cluster.cluster}/{rest}"


async def uploaded(lab: Stack, user: User, path: str, content: bytes) -> None:
    body = {"path": path, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    async with user.session.post(cluster_path(lab, "storage/presigned-url"), json=body) as answer:
        signed = await answer.json()
    async with user.session.put(URL(signed["url"], encoded=True), data=content, headers=signed["headers"]) as answer:
        assert answer.status == 200, await answer.text()


async def downloaded(lab: Stack, user: User, path: str) -> bytes | None:
    body = {"path": path, "method": "GET"}
    async with user.session.post(cluster_path(lab, "storage/presigned-url"), json=body) as answer:
        signed = await answer.json()
    async with user.session.get(URL(signed["url"], encoded=True)) as answer:
        return await answer.read() if answer.status == 200 else None


async def detail(lab: Stack, user: User, job_id: str) -> dict[str, Any]:
    async with user.session.get(cluster_path(lab, f"jobs/{job_id}")) as answer:
        assert answer.status == 200, await answer.text()
        job: dict[str, Any] = await answer.json()
        return job


async def staging_over(lab: Stack, user: User, job_id: str, *, seconds: float = 90) -> dict[str, Any]:
    seen: list[dict[str, Any]] = []

    async def over() -> bool:
        seen[:] = [(await detail(lab, user, job_id))["staging"]]
        return seen[0]["state"] in {"done", "failed"}

    await until(over, seconds=seconds, every=0.3, what=f"the end of the staging of job {job_id}: {seen}")
    return seen[0]
