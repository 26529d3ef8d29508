"""What a request says, read into models: bodies, queries, ids in paths. What is wrong is told by name, with a hint."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web
from clusterra_contracts.identity import ClusterRef, JobId
from clusterra_runtime.nats.registry import Registry
from pydantic import BaseModel, BeforeValidator, ConfigDict, TypeAdapter, ValidationError

from clusterra_gateway.http.errors import InvalidRequest, NotFound, UnsupportedMedia
from clusterra_gateway.identity.authentication import Caller

MAX_BODY_BYTES = 4 * 1024 * 1024
"""The largest script with each of its characters escaped, as some JSON writers do, is still read."""

type Location = tuple[int | str, ...]
type Hints = Mapping[Location, str]
"""What to do when something is wrong at a place, such as `("job", "nodes")`."""

_JOB_ID: TypeAdapter[str] = TypeAdapter(JobId)


def _split(value: object) -> object:
    if not isinstance(value, str):
        return value
    return tuple(part.strip() for part in value.split(",") if part.strip()) or None


CommaSeparated = BeforeValidator(_split)
"""For query parameters with several values, `state=RUNNING,PENDING`; with none it is as if they were not there."""


class Query(BaseModel):
    """Query parameters of a route: unknown ones are refused, for a misspelt filter would silently not filter."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Body(BaseModel):
    """A request's JSON body: unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


async def body[B: BaseModel](request: web.Request, model: type[B], hints: Hints | None = None) -> B:
    """The JSON body. Raises InvalidRequest, UnsupportedMedia, or aiohttp's own error for one that is too large."""
    if request.content_type != "application/json":
        raise UnsupportedMedia("the body must be JSON", hint="send it with `Content-Type: application/json`")
    try:
        return model.model_validate_json(await request.read())
    except ValidationError as error:
        raise _invalid("body", error, hints or {}) from None


def query[Q: Query](request: web.Request, model: type[Q]) -> Q:
    """The query parameters. Raises InvalidRequest."""
    given: dict[str, Any] = {}
    for name, value in request.query.items():
        if name in given:
            raise InvalidRequest(f"{name} is given twice", hint="separate several values by commas")
        given[name] = value
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise _invalid("query", error, {}) from None


def cluster(request: web.Request, caller: Caller, registry: Registry) -> ClusterRef:
    """The cluster of the path, which must be the caller's tenant's. Raises NotFound."""
    try:
        ref = caller.cluster(request.match_info["cluster_id"])
    except ValidationError:
        ref = None
    if ref is None or registry.get(ref) is None:
        raise NotFound("there is no such cluster", hint="GET /v1/clusters lists yours")
    return ref


def job_id(request: web.Request) -> JobId:
    """The job id of the path. Raises NotFound for anything that is none."""
    try:
        return _JOB_ID.validate_python(request.match_info["job_id"])
    except ValidationError:
        raise NotFound("there is no such job", hint="a job id looks like 42, an array task's like 42_7") from None


def _invalid(where: str, error: ValidationError, hints: Hints) -> InvalidRequest:
    problems = error.errors(include_input=False, include_url=False, include_context=False)
    details = [f"{'.'.join(str(part) for part in each['loc']) or where}: {each['msg']}" for each in problems[:5]]
    found = dict.fromkeys(hints[each["loc"]] for each in problems if each["loc"] in hints)
    return InvalidRequest("; ".join(details), hint="; ".join(found))
