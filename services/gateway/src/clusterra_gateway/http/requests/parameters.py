"""Reads a request into models: its body, its query, the ids in its path, and one range of bytes (RFC 9110).

Each error names the field and has a hint.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl

from aiohttp import web
from clusterra_contracts.identity import JobId, Moment, arrival
from clusterra_contracts.rpc.slurm_jobs import JobSelection
from pydantic import BaseModel, BeforeValidator, ConfigDict, TypeAdapter, ValidationError

from clusterra_gateway.http.requests.errors import (
    InvalidRequest,
    NotFound,
    RangeNotSatisfiable,
    UnsupportedMedia,
)
from clusterra_gateway.http.requests.field_errors import Hints, invalid
from clusterra_gateway.http.requests.json_body import SMALL, BodyBounds, plain, read_json, read_within


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter in a route's path or headers, as the OpenAPI document describes it. `pattern` is its syntax."""

    name: str
    place: Literal["path", "header"]
    pattern: str
    description: str = ""
    chosen: bool = False
    """Whether callers choose it from the values of `pattern`, and take it from no answer."""
    refuses: tuple[HTTPStatus, ...] = ()
    """The statuses with which a header may have a request refused."""


JOB_ID = Parameter("job_id", "path", "^[1-9][0-9]{0,9}(_[0-9]{1,7})?$")

JOBS = Parameter(
    "job_id",
    "path",
    r"^[1-9][0-9]{0,9}(_([0-9]{1,7}|\[[0-9,:-]{1,500}\]))?$",
    "A job or a whole array (`42`), a task (`42_7`), or tasks in Slurm's notation (`42_[1-5,9]`).",
)

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]")
_JOB_ID: TypeAdapter[str] = TypeAdapter(JobId)
_JOBS: TypeAdapter[str] = TypeAdapter(JobSelection)


def _split(value: object) -> object:
    if not isinstance(value, str):
        return value
    parts = tuple(part.strip() for part in value.split(",") if part.strip())
    if value.strip() and not parts:
        raise ValueError("a list names one value at least")
    return parts or None


CommaSeparated = BeforeValidator(_split)
"""For a query parameter with several values, such as `state=RUNNING,PENDING`. An empty one counts as not given."""


def _written(value: object) -> object:
    """Refuses a number: pydantic would take `2026` for the seconds since 1970."""
    if isinstance(value, str) and not _DATE.match(value):
        raise ValueError("a time is written like 2026-11-23T17:00:00Z")
    return value


Time = Annotated[Moment, BeforeValidator(_written)]
"""For a query parameter that is a time of RFC 3339."""


def _no_boolean(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("true and false are no numbers")  # noqa: TRY004 - pydantic takes no TypeError
    return value


NotBoolean = BeforeValidator(_no_boolean)
"""For a number in a body that may be 0 or 1: pydantic would take `false` and `true` for them."""


class Query(BaseModel):
    """The query parameters of a route. Unknown ones are an error: a misspelt filter would silently not filter."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Body(BaseModel):
    """The JSON body of a request. Unknown fields are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


async def body[B: BaseModel](
    request: web.Request, model: type[B], hints: Hints | None = None, bounds: BodyBounds = SMALL
) -> B:
    """Reads the JSON body. Raises InvalidRequest, TooLarge, UnsupportedMedia."""
    return parsed(await read_json(request, bounds), model, hints)


def parsed[B: BaseModel](content: bytes, model: type[B], hints: Hints | None = None) -> B:
    """Reads JSON that `read_json` has let pass. Raises InvalidRequest."""
    try:
        return model.model_validate_json(content, context=arrival())
    except ValidationError as error:
        raise invalid("body", error, model, plain(content), hints or {}) from None


def checked[B: BaseModel](model: type[B], values: Mapping[str, Any], hints: Hints | None = None) -> B:
    """Checks the values of a body that was read already. Raises InvalidRequest."""
    try:
        return model.model_validate(values, context=arrival())
    except ValidationError as error:
        raise invalid("body", error, model, values, hints or {}) from None


def query[Q: Query](request: web.Request, model: type[Q]) -> Q:
    """Reads the query parameters. Raises InvalidRequest."""
    given: dict[str, Any] = {}
    for name, value in request.query.items():
        if name in given:
            raise InvalidRequest(f"{name} is given twice", hint="separate several values with commas")
        if "\0" in value:
            raise InvalidRequest(f"{name} has a NUL character", hint="leave it out")
        given[name] = value
    try:
        return model.model_validate(given, context=arrival())
    except ValidationError as error:
        raise invalid("query", error, model, given, {}) from None


def path_id(request: web.Request, parameter: Parameter) -> str:
    """Reads an id from the path. Raises NotFound for an id that cannot exist."""
    given = request.match_info[parameter.name]
    if re.fullmatch(parameter.pattern, given) is None:
        raise NotFound(f"nothing has this {parameter.name}", hint="send the id exactly as it was listed")
    return given


def job_id(request: web.Request) -> JobId:
    """Reads the job id in the path. Raises NotFound for a malformed one."""
    return _job(request, _JOB_ID, "a job id looks like 42, the id of an array task like 42_7")


def selected_jobs(request: web.Request) -> str:
    """Reads the job, the array or the tasks in the path. Raises NotFound for a malformed selection."""
    return _job(request, _JOBS, "a job id looks like 42, a task like 42_7, several tasks like 42_[1-5,9]")


def _job(request: web.Request, syntax: TypeAdapter[str], hint: str) -> str:
    try:
        return syntax.validate_python(request.match_info["job_id"])
    except ValidationError:
        raise NotFound("there is no such job", hint=hint) from None


FORM = "application/x-www-form-urlencoded"
MAX_FORM_BYTES = 16 * 1024
MAX_FORM_FIELDS = 50


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form. One without a value counts as not given (RFC 6749, section 3.2)."""

    fields: Mapping[str, str]
    repeated: frozenset[str]

    def read[B: BaseModel](self, model: type[B]) -> B:
        """Reads the fields into a model. Raises InvalidRequest."""
        if self.repeated & model.model_fields.keys():
            raise InvalidRequest("a field of the form is given twice", hint="send each field once")
        return checked(model, self.fields)


async def read_form(request: web.Request) -> Form:
    """Reads a form. Raises InvalidRequest, TooLarge, UnsupportedMedia."""
    if request.content_type != FORM:
        raise UnsupportedMedia("the body must be a form", hint=f"send it with `Content-Type: {FORM}`")
    content = await read_within(request, MAX_FORM_BYTES)
    try:
        fields = parse_qsl(content.decode(), max_num_fields=MAX_FORM_FIELDS, errors="strict")
    except ValueError:
        hint = f"send at most {MAX_FORM_FIELDS} fields, in UTF-8"
        raise InvalidRequest("the form cannot be read", hint=hint) from None
    times = Counter(name for name, _ in fields)
    return Form(dict(fields), frozenset(name for name, number in times.items() if number > 1))


async def form[B: BaseModel](request: web.Request, model: type[B]) -> B:
    """Reads a form into a model. Raises InvalidRequest, TooLarge, UnsupportedMedia."""
    return (await read_form(request)).read(model)


RANGE = Parameter(
    "Range",
    "header",
    # Whatever it is, it is ignored beside `after` and `tail`, and in another unit.
    "^.*$",
    "One range of bytes: `bytes=0-99`, `bytes=100-`, or `bytes=-100` for the last 100.",
    refuses=(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,),
)
_RANGE_SYNTAX = re.compile("bytes=([0-9]{1,18}-[0-9]{0,18}|-[0-9]{1,18})", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A range that was not yet compared with the size of the content. At least one of the two is given."""

    first: int | None
    last: int | None
    """The last byte, included; without `first`, the number of bytes at the end."""

    def within(self, size: int) -> tuple[int, int]:
        """The half-open range of bytes, of a content of `size` bytes. Raises RangeNotSatisfiable."""
        if self.first is None:
            begin, end = size - min(size, self.last or 0), size
        else:
            begin, end = self.first, size if self.last is None else min(size, self.last + 1)
        if begin >= end:
            raise RangeNotSatisfiable(
                f"the range has no byte of what there is: it has {size} bytes",
                size=size,
                hint="ask for a range before its end",
            )
        return begin, end


def byte_range(request: web.Request) -> ByteRange | None:
    """The wanted range; None for all, also where the unit is not bytes. Raises InvalidRequest."""
    given = request.headers.get(RANGE.name)
    if given is None or not given.lower().startswith("bytes="):
        return None
    first, _, last = given[len("bytes=") :].partition("-")
    if _RANGE_SYNTAX.fullmatch(given):
        return ByteRange(int(first) if first else None, int(last) if last else None)
    raise InvalidRequest(
        "Range is not one range of bytes", hint="ask for one range, such as `bytes=0-99` or `bytes=-100`"
    )
