"""A job to submit, as the API takes it: its shape and its size limits."""

import hashlib
from typing import Annotated

from aiohttp import web
from clusterra_contracts.rpc.slurm import JobDescription
from pydantic import Field

from clusterra_gateway.http.errors import TooLarge
from clusterra_gateway.http.json_body import MAX_BODY_BYTES, BodyBounds
from clusterra_gateway.http.parameters import Body, Hints, body

MAX_SCRIPT_BYTES = 512 * 1024
MAX_SUBMISSION_BYTES = 768 * 1024
"""A submit and what the gateway adds to it must fit into NATS' payload limit of 1 MiB."""

BOUNDS = BodyBounds(MAX_BODY_BYTES, 10_000)
"""A job has a few lists of at most 1,000 items each."""

_SET_BY_CLUSTERRA = "leave it out: Clusterra sets it, because a job runs as the person who submits it"
HINTS: Hints = {
    ("script",): '`script` must be a string at the top level: {"script": "#!/bin/bash\\n...", "job": {...}}',
    ("job",): '`job` must have an environment at least: {"environment": ["PATH=/usr/bin:/bin"]}',
    ("job", "script"): "move `script` out of `job`, to the top level of the body",
    ("job", "nodes"): '`nodes` must be a string, such as "1" or "2-4"',
    ("job", "environment"): '`environment` must be a list with at least one variable, such as ["PATH=/usr/bin:/bin"]',
    ("job", "user_id"): _SET_BY_CLUSTERRA,
    ("job", "group_id"): _SET_BY_CLUSTERRA,
    ("job", "comment"): "leave it out: Clusterra keeps its own note in the comment",
}


class Submission(Body):
    """A job in slurmrestd's shape, with the script beside the job and not inside it."""

    script: Annotated[str, Field(min_length=1)]
    job: JobDescription

    def canonical(self) -> bytes:
        """The same bytes for every spelling of the same submission."""
        return self.model_dump_json().encode()

    def digest(self) -> str:
        """Identifies the submission among the requests with one Idempotency-Key."""
        return hashlib.sha256(self.canonical()).hexdigest()


async def read_submission(request: web.Request) -> Submission:
    """Reads the submission in the body. Raises InvalidRequest, UnsupportedMedia, TooLarge."""
    submission = await body(request, Submission, HINTS, BOUNDS)
    check_size(submission)
    return submission


def check_size(submission: Submission) -> None:
    """Raises TooLarge for a submission that does not fit into a message."""
    if len(submission.script.encode()) > MAX_SCRIPT_BYTES or len(submission.canonical()) > MAX_SUBMISSION_BYTES:
        raise TooLarge(
            f"the script is larger than {MAX_SCRIPT_BYTES // 1024} KiB, or the whole submission is larger than "
            f"{MAX_SUBMISSION_BYTES // 1024} KiB",
            hint="keep large programs and data on the shared file system, and call them from the script",
        )
