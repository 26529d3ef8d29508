"""Many held jobs, submitted to slurmrestd as their person: by the gateway each one would take several times as long."""

import asyncio
from collections.abc import Iterable

from aiohttp import ClientSession, TCPConnector
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack

SUBMITTERS = 8
TOKEN_SECONDS = 3600
_SUBMIT = "/slurm/v0.0.45/job/submit"


async def held_jobs(lab: Stack, user: User, names: Iterable[str]) -> dict[str, str]:
    """Submit a held job of each name, and return the job ids by name."""
    remaining = iter(names)
    jobs: dict[str, str] = {}
    token = lab.slurm.token(user.profile.name, user.profile.uid, user.profile.uid, seconds=TOKEN_SECONDS)
    headers = {"X-SLURM-USER-TOKEN": token}
    job = {"hold": True, "environment": ["PATH=/usr/bin:/bin"], "current_working_directory": lab.slurm.shared_path}

    async def submitter() -> None:
        for name in remaining:
            body = {"script": "#!/bin/sh\ntrue\n", "job": {**job, "name": name}}
            async with slurmrestd.post(_SUBMIT, json=body) as answer:
                assert answer.status == 200, await answer.text()
                jobs[name] = str((await answer.json())["job_id"])

    connector = TCPConnector(limit=SUBMITTERS)
    async with ClientSession(lab.slurm.slurmrestd_url, headers=headers, connector=connector) as slurmrestd:
        await asyncio.gather(*(submitter() for _ in range(SUBMITTERS)))
    return jobs
