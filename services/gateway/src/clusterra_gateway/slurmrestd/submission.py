"""A job in a client's own form of slurmrestd's submit: which fields count, which are ours, which are refused."""

from collections.abc import Mapping
from typing import Annotated, Any

from aiohttp import web
from pydantic import ConfigDict, Field

from clusterra_gateway.http.errors import FieldError, InvalidRequest
from clusterra_gateway.http.json_body import BodyBounds
from clusterra_gateway.http.parameters import MAX_FIELD_ERRORS, Body, body, checked
from clusterra_gateway.jobs.job_fields import ACCEPTED, LEFT_OUT, REFUSED
from clusterra_gateway.jobs.submission import BOUNDS, HINTS, JobToSubmit, Submission, check_size
from clusterra_gateway.slurmrestd import unset


class RestSubmission(Body):
    """A job as slurmrestd takes it: `script` beside the job or in it, and `jobs` with one job in place of `job`."""

    script: str | None = None
    job: dict[str, Any] | None = None
    jobs: tuple[dict[str, Any], ...] | None = None


def as_taken(schema: dict[str, Any]) -> None:
    """Say in the schema of a job what is taken from clients beside it: unset fields, and those that do not count."""
    unset.or_unset(schema)
    schema["properties"] |= {name: {"description": f"Left out: {why}."} for name, why in sorted(LEFT_OUT.items())}


class RestJob(JobToSubmit):
    """A job to submit, as in slurmrestd. Fields that are not set are left out, whatever their names."""

    model_config = ConfigDict(json_schema_extra=as_taken)


class DescribedSubmission(Body):
    """A job as slurmrestd takes it. The script may be in the job as well, and the job alone in a list, `jobs`."""

    script: Annotated[str, Field(min_length=1)]
    job: RestJob


async def read_rest_submission(request: web.Request) -> tuple[Submission, tuple[str, ...]]:
    """Reads the submission in the body, and returns it with its warnings. Raises InvalidRequest, TooLarge."""
    given = await body(request, RestSubmission, bounds=BOUNDS)
    if given.jobs and (given.job is not None or len(given.jobs) > 1):
        raise InvalidRequest(
            "heterogeneous jobs are not accepted: a key, an estimate and the limits of a job are of one job alone",
            hint="send one job, in `job`; it may start several steps with srun",
        )
    described = given.job if given.job is not None else (given.jobs or ({},))[0]
    script = given.script or described.get("script")
    job, warnings = known_fields({name: value for name, value in described.items() if name != "script"}, "#/job")
    submission = checked(Submission, {"script": script or "", "job": job}, HINTS)
    check_size(submission)
    return submission, warnings


def known_fields(given: Mapping[str, Any], pointer: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Returns the fields of a job that count, and a warning for each that is ours. Clients may send unset fields.

    Raises InvalidRequest, which names all that are refused.
    """
    sent = unset.set_fields(given, ACCEPTED)
    refused = sorted(sent.keys() - LEFT_OUT.keys() - ACCEPTED)
    if refused:
        raise refusal(refused, pointer, REFUSED)
    return {name: value for name, value in sent.items() if name in ACCEPTED}, left_out(sent)


def left_out(sent: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns a warning for each field that does not count."""
    return tuple(f"{name} is left out: {LEFT_OUT[name]}" for name in sorted(sent.keys() & LEFT_OUT.keys()))


def refusal(names: list[str], pointer: str, reasons: Mapping[str, str]) -> InvalidRequest:
    """The error for fields that are not accepted, with the reason of each."""
    errors = tuple(
        FieldError(
            "body", f"{pointer}/{name}", f"{name} is not accepted: {reasons.get(name, 'Slurm has no such field')}"
        )
        for name in names[:MAX_FIELD_ERRORS]
    )
    return InvalidRequest(f"not accepted: {', '.join(names[:MAX_FIELD_ERRORS])}", errors=errors)


CHANGE_BOUNDS = BodyBounds(64 * 1024, 2000)
"""Of a change: clients send all fields of a job, most of them unset."""
