"""Bodies in slurmrestd's shape: every answer has `meta`, `errors` and `warnings`."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import web
from clusterra_contracts.identity import ClusterRef
from pydantic import BaseModel, ConfigDict, Field

from clusterra_gateway.http.answers.problems import RETRY_AFTER_SECONDS, STATUS, type_name
from clusterra_gateway.http.answers.responses import NO_STORE, json_bytes
from clusterra_gateway.http.requests.errors import RequestError
from clusterra_gateway.identity.access.authentication import Caller

SOURCE = "clusterra"
"""Who made the errors and warnings that Slurm did not make."""
UNSET = {"set": False, "infinite": False, "number": 0}
"""Slurm's number that is not set."""


class RestError(BaseModel):
    """An error, as slurmrestd writes it."""

    model_config = ConfigDict(frozen=True)

    description: str
    error_number: int
    """Slurm's own number where there is one, else 0."""
    error: str
    """The name of the type of problem, such as `not-found`."""
    source: str
    """Where in the request it is, such as `#/job/nodes`, or `clusterra`."""


class RestWarning(BaseModel):
    """A warning, as slurmrestd writes it."""

    model_config = ConfigDict(frozen=True)

    description: str
    source: str = SOURCE


class RestAnswer(BaseModel):
    """An answer in slurmrestd's shape: besides these fields, those of slurmrestd's own answer."""

    model_config = ConfigDict(frozen=True, extra="allow")

    meta: dict[str, Any] = Field(default_factory=dict)
    errors: tuple[RestError, ...] = ()
    warnings: tuple[RestWarning, ...] = ()


def answer(
    request: web.Request,
    caller: Caller,
    ref: ClusterRef,
    fields: Mapping[str, Any],
    warnings: Iterable[str] = (),
) -> web.Response:
    """A successful answer that the gateway makes itself."""
    meta = _meta(request.match_info.get("version", "")) | {
        "client": {"source": SOURCE, "user": caller.viewer.user.name, "group": ""},
        "slurm": {"version": {"major": "", "micro": "", "minor": ""}, "release": "", "cluster": ref.cluster},
    }
    told = [RestWarning(description=text).model_dump() for text in warnings]
    return json_bytes(orjson.dumps({**fields, "meta": meta, "errors": [], "warnings": told}))


def error_answer(request: web.Request, error: RequestError, fields: Mapping[str, Any]) -> web.Response:
    """The answer to a request that failed, with the empty `fields` that clients expect in any answer."""
    status = STATUS[type(error)]
    headers = dict(NO_STORE)
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(error.retry_after_seconds)
    number, name = error.code or 0, type_name(type(error))
    text = f"{error.detail}: {error.hint}" if error.hint else error.detail
    errors = [RestError(description=text, error_number=number, error=name, source=SOURCE)]
    if error.errors:
        hint = f": {error.hint}" if error.hint else ""
        errors = [
            RestError(description=f"{each.detail}{hint}", error_number=number, error=name, source=each.place)
            for each in error.errors
        ]
    told = {"meta": _meta(request.match_info.get("version", "")), "errors": [each.model_dump() for each in errors]}
    return json_bytes(orjson.dumps({**fields, **told, "warnings": []}), status=status, headers=headers)


def _meta(version: str) -> dict[str, Any]:
    plugin = {"type": "", "name": "Clusterra", "data_parser": f"data_parser/{version}", "accounting_storage": ""}
    return {"plugin": plugin, "command": []}
