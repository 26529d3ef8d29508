"""Reads a job to submit from a request: which fields are refused and why, and how large it may be."""

from typing import Any

from aiohttp import web
from clusterra_contracts.rpc.slurm import MAX_COMPONENTS
from pydantic_core import from_json

from clusterra_gateway.http.requests.errors import TooLarge
from clusterra_gateway.http.requests.json_body import MAX_BODY_BYTES, BodyBounds, read_json
from clusterra_gateway.http.requests.parameters import Hints, checked, parsed
from clusterra_gateway.submission.job_fields import LEFT_OUT, REFUSED
from clusterra_gateway.submission.models import AnyScript, HeterogeneousSubmission, Submission, TemplateSubmission

MAX_SCRIPT_BYTES = 512 * 1024
MAX_SUBMISSION_BYTES = 768 * 1024
"""A submit and what the gateway adds to it must fit into NATS' payload limit of 1 MiB."""

BOUNDS = BodyBounds(MAX_BODY_BYTES, 10_000)
"""A job has a few lists of at most 1,000 items each."""

_SET_BY_CLUSTERRA = "leave it out: Clusterra sets it, because a job runs as the person who submits it"
HINTS: Hints = {
    **{("job", name): f"leave it out: {reason}" for name, reason in (LEFT_OUT | REFUSED).items()},
    ("script",): '`script` must be a string at the top level: {"script": "#!/bin/bash\\n...", "job": {...}}',
    ("job",): '`job` must have an environment at least: {"environment": ["PATH=/usr/bin:/bin"]}',
    ("job", "script"): "move `script` out of `job`, to the top level of the body",
    ("job", "nodes"): '`nodes` must be a string, such as "1" or "2-4"',
    ("job", "environment"): '`environment` must be a list with at least one variable, such as ["PATH=/usr/bin:/bin"]',
    ("job", "user_id"): _SET_BY_CLUSTERRA,
    ("job", "group_id"): _SET_BY_CLUSTERRA,
    ("job", "comment"): "leave it out: Clusterra keeps its own note in the comment",
    ("jobs",): "send one job in `job`, or the components of a heterogeneous job in `jobs`",
}
COMPONENT_HINTS: Hints = {
    ("script",): HINTS["script",],
    ("jobs",): f"`jobs` must have 2 to {MAX_COMPONENTS} components; send a single job in `job`",
    **dict.fromkeys([("stage_in",), ("stage_out",)], "files are staged for a single job, in `job`"),
    **{
        ("jobs", number, *path[1:]): hint
        for path, hint in HINTS.items()
        if path[0] == "job"
        for number in range(MAX_COMPONENTS)
    },
}


async def read_any_submission(request: web.Request) -> AnyScript | TemplateSubmission:
    """Reads any of the bodies. That of a template has a `template_id` and no script. Raises as `read_submission`."""
    content = await read_json(request, BOUNDS)
    found = _object_in(content)
    if "template_id" in found and "script" not in found:
        return checked(TemplateSubmission, found)
    return _with_script(content, found)


async def read_submission(request: web.Request) -> AnyScript:
    """Reads the submission in the body. Raises InvalidRequest, UnsupportedMedia, TooLarge."""
    content = await read_json(request, BOUNDS)
    return _with_script(content, _object_in(content))


def _object_in(content: bytes) -> dict[str, Any]:
    """The object that a body is; empty for any other body, which its model then refuses."""
    try:
        found = from_json(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _with_script(content: bytes, found: dict[str, Any]) -> AnyScript:
    several = "jobs" in found and "job" not in found
    submission: AnyScript = (
        parsed(content, HeterogeneousSubmission, COMPONENT_HINTS) if several else parsed(content, Submission, HINTS)
    )
    check_size(submission)
    return submission


def check_size(submission: AnyScript) -> None:
    """Raises TooLarge for a submission that does not fit into a message."""
    if len(submission.script.encode()) > MAX_SCRIPT_BYTES or len(submission.canonical()) > MAX_SUBMISSION_BYTES:
        raise TooLarge(
            f"the script is larger than {MAX_SCRIPT_BYTES // 1024} KiB, or the whole submission is larger than "
            f"{MAX_SUBMISSION_BYTES // 1024} KiB",
            hint="keep large programs and data on the shared file system, and call them from the script",
        )
