"""A job in a client's own form of slurmrestd's submit: which fields count, which are ours, which are refused."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from aiohttp import web
from clusterra_contracts.rpc.slurm import MAX_COMPONENTS
from pydantic import ConfigDict, Field, RootModel

from clusterra_gateway.http.requests.errors import FieldError, InvalidRequest
from clusterra_gateway.http.requests.field_errors import MAX_FIELD_ERRORS
from clusterra_gateway.http.requests.json_body import BodyBounds
from clusterra_gateway.http.requests.parameters import Body, body, checked
from clusterra_gateway.submission.models import AnyScript, HeterogeneousSubmission, JobToSubmit, Submission
from clusterra_gateway.submission.reading import ACCEPTED, BOUNDS, COMPONENT_HINTS, HINTS, LEFT_OUT, REFUSED, check_size

OF_A_JOB = ACCEPTED | {"confirmed_usd_per_hour"}
"""The fields of slurmrestd's job that count, and our own."""

type Schema = dict[str, Any]

_UNSET: tuple[Schema, ...] = (
    {"type": "null"},
    {"const": ""},
    {"type": "array", "items": {}, "maxItems": 0},
    {"type": "object", "maxProperties": 0},
    {"type": "object", "properties": {"set": {"const": False}}, "required": ["set"]},
)
"""Values that say nothing: clients that are generated from slurmrestd's document send them for fields not set."""


def is_unset(value: Any) -> bool:
    """Whether a value says nothing."""
    if isinstance(value, Mapping):
        return not value or value.get("set") is False
    return value is None or value is False or value in ("", [], ())


def set_fields(fields: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The fields that say something. `requeue: false` does, where the field is known."""
    return {name: value for name, value in fields.items() if not is_unset(value) or (value is False and name in known)}


def number(value: Any) -> Any:
    """Read Slurm's `{"set": true, "number": N}` as N. Anything else stays as it is."""
    if not isinstance(value, dict) or value.get("infinite") or not isinstance(value.get("number"), int | float):
        return value
    return value["number"]


def or_unset(schema: Schema) -> None:
    """Say in the schema of a job that a field may be unset, unless it is required, whatever its name."""
    for name, field in schema["properties"].items():
        if name not in schema.get("required", ()):
            schema["properties"][name] = {"anyOf": [field, *_as_object(field), *_UNSET]}
    schema["additionalProperties"] = {"anyOf": [*_UNSET, {"const": False}]}


def _as_object(schema: Schema) -> list[Schema]:
    """The schemas of Slurm's objects for the numbers among the choices."""
    numbers = [choice for choice in (schema, *schema.get("anyOf", ())) if choice.get("type") == "integer"]
    return [
        {
            "type": "object",
            "properties": {"number": each, "set": {"type": "boolean"}, "infinite": {"const": False}},
            "required": ["number"],
        }
        for each in numbers
    ]


class RestSubmission(Body):
    """A job as slurmrestd takes it: `script` beside the job or in it, and `jobs` with all components of a job."""

    script: str | None = None
    job: dict[str, Any] | None = None
    jobs: tuple[dict[str, Any], ...] | None = None


def as_taken(schema: dict[str, Any]) -> None:
    """Say in the schema of a job what is taken from clients beside it: unset fields, and those that do not count."""
    or_unset(schema)
    schema["properties"] |= {name: {"description": f"Left out: {why}."} for name, why in sorted(LEFT_OUT.items())}


class RestJob(JobToSubmit):
    """A job to submit, as in slurmrestd. Fields that are not set are left out, whatever their names."""

    model_config = ConfigDict(json_schema_extra=as_taken)


class DescribedJob(Body):
    """A job as slurmrestd takes it. The script may be in the job as well, and the job alone in a list, `jobs`."""

    script: Annotated[str, Field(min_length=1)]
    job: RestJob


class DescribedComponents(HeterogeneousSubmission):
    """A heterogeneous job as slurmrestd takes it; with one component it is an ordinary job.

    The script may be in the first component as well.
    """

    jobs: Annotated[tuple[RestJob, ...], Field(min_length=1, max_length=MAX_COMPONENTS)]


class DescribedSubmission(RootModel[DescribedJob | DescribedComponents]):
    """A job as slurmrestd takes it: one job, or the components of a heterogeneous job."""


async def read_rest_submission(request: web.Request) -> tuple[AnyScript, tuple[str, ...]]:
    """Reads the submission in the body, and returns it with its warnings. Raises InvalidRequest, TooLarge."""
    given = await body(request, RestSubmission, bounds=BOUNDS)
    if given.jobs and given.job is not None:
        raise InvalidRequest(
            "the body has both `job` and `jobs`", hint="send one job in `job`, or all components of a job in `jobs`"
        )
    submission, warnings = _several(given) if given.jobs and len(given.jobs) > 1 else _single(given)
    check_size(submission)
    return submission, warnings


def _single(given: RestSubmission) -> tuple[Submission, tuple[str, ...]]:
    described = given.job if given.job is not None else (given.jobs or ({},))[0]
    job, warnings = known_fields(_without_script(described), "#/job")
    script = given.script or described.get("script") or ""
    return checked(Submission, {"script": script, "job": job}, HINTS), warnings


def _several(given: RestSubmission) -> tuple[HeterogeneousSubmission, tuple[str, ...]]:
    first, *others = given.jobs or ()
    if number := next((number for number, each in enumerate(others, start=1) if each.get("script")), None):
        raise InvalidRequest(
            f"component {number} has a script of its own",
            hint="the script runs in the first component; srun starts commands in the others",
        )
    read = [known_fields(_without_script(each), f"#/jobs/{number}") for number, each in enumerate((first, *others))]
    values = {"script": given.script or first.get("script") or "", "jobs": [job for job, _ in read]}
    # Every component may leave out the same fields.
    warnings = dict.fromkeys(warning for _, found in read for warning in found)
    return checked(HeterogeneousSubmission, values, COMPONENT_HINTS), tuple(warnings)


def _without_script(job: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in job.items() if name != "script"}


def known_fields(given: Mapping[str, Any], pointer: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Returns the fields of a job that count, and a warning for each that is ours. Clients may send unset fields.

    Raises InvalidRequest, which names all that are refused.
    """
    sent = set_fields(given, OF_A_JOB)
    refused = sorted(sent.keys() - LEFT_OUT.keys() - OF_A_JOB)
    if refused:
        raise refusal(refused, pointer, REFUSED)
    return {name: number(value) for name, value in sent.items() if name in OF_A_JOB}, left_out(sent)


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
