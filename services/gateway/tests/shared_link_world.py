"""Shared links of the tests: made by the owner of a job, opened by somebody without an account."""

import re
from typing import Any

import aiohttp
from clusterra_contracts.rpc.slurm import Job
from gateway_world import World
from people_world import bearer, me

LINKS = "/v1/clusters/main/jobs/7/links"
SHARED = "/v1/shared-job"
OUTPUT = f"{SHARED}/output"
SCRIPT = f"{SHARED}/script"
SUBMITTED = "#!/bin/sh\n# for the review alone\necho hello\n"
PATH = "/shared-fs/home/ada/secret-project/out.txt"


async def owner_of_a_job(world: World, email: str = "ada@acme.example", job_id: str = "7") -> aiohttp.ClientSession:
    """The browser of a person to whom this job belongs, which has written something."""
    browser = await world.login(email)
    profile = await me(browser)
    world.acme.add_job(job_id, user=profile["name"], uid=profile["uid"])
    world.acme.edge.write_output(job_id, b"hello from the job\n")
    world.acme.scripts[job_id] = SUBMITTED
    return browser


async def made_link(browser: aiohttp.ClientSession, path: str = LINKS, **fields: Any) -> dict[str, Any]:
    """A new link, as it is shown once."""
    async with browser.post(path, json=fields) as answer:
        assert answer.status == 201, await answer.text()
        made: dict[str, Any] = await answer.json()
        return made


async def opened(world: World, token: str, path: str = SHARED, *, status: int = 200) -> str:
    """What somebody without an account gets with the token of a link."""
    stranger = await world.browser()
    async with stranger.get(path, headers=bearer(token)) as answer:
        text = await answer.text()
    assert answer.status == status, text
    return text


def names(text: str, word: str) -> bool:
    """Whether the text has the word; a random ID or a time that happens to have its letters does not count."""
    return re.search(rf"(?<![0-9a-f]){re.escape(word)}(?![0-9a-f])", text) is not None


def changed_job(world: World, job_id: str = "7", **fields: Any) -> Job:
    """The job with other values."""
    job = world.acme.jobs[job_id].model_copy(update=fields)
    world.acme.jobs[job_id] = job
    return job
