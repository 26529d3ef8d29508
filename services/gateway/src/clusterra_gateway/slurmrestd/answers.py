"""Answers in slurmrestd's shape: our own, which all have `meta`, `errors` and `warnings`, and those passed on."""

import zlib
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import web
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.slurm_rest import REST_BLOCK_BYTES, ReadRest, RestPart
from pydantic import BaseModel, ConfigDict, Field

from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.http.answers.problems import RETRY_AFTER_SECONDS, STATUS, type_name
from clusterra_gateway.http.answers.responses import NO_STORE, json_bytes
from clusterra_gateway.http.answers.streams import TABLE_WEIGHT, send
from clusterra_gateway.http.requests.errors import InvalidRequest, RequestError
from clusterra_gateway.http.requests.parameters import Parameter, Query, path_id, query
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


MAX_PARAMETERS, MAX_VALUE_CHARACTERS = 40, 1000
"""Bounds of a query, as messages carry it."""


@dataclass(frozen=True)
class Read:
    """A handler of one resource. `many`: whether its answer is a list that the clients of a cluster share."""

    slurm: SlurmRequests
    resource: str
    filters: type[Query]
    name: Parameter | None = None
    many: bool = False

    async def __call__(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Answers one request."""
        given = query(request, self.filters).model_dump(exclude_none=True)
        if any(len(value) > MAX_VALUE_CHARACTERS for value in given.values()):
            raise InvalidRequest(f"a value of the query has more than {MAX_VALUE_CHARACTERS} characters")
        read = ReadRest(
            viewer=caller.viewer,
            version=request.match_info["version"],
            resource=self.resource,
            name="" if self.name is None else path_id(request, self.name),
            query=given,
        )
        first = await self._part(ref, read)
        if first.not_modified:
            return web.Response(status=304, headers=NO_STORE)
        if first.after is None:
            return json_bytes(b"".join([text async for text in self._text(ref, read, first)]))
        response = web.StreamResponse(headers=NO_STORE)
        response.content_type = "application/json"
        response.enable_compression()
        text = self._text(ref, read, first)
        del first  # it would be held until the client has read the last part
        return await send(request, response, text, weight=TABLE_WEIGHT)

    async def _part(self, ref: ClusterRef, read: ReadRest) -> RestPart:
        return await (self.slurm.rest_list if self.many else self.slurm.rest)(ref, read)

    async def _text(self, ref: ClusterRef, read: ReadRest, part: RestPart) -> AsyncIterator[bytes]:
        """The body. The next part is asked for when the client has taken the one before."""
        if not part.listed:
            yield part.answer.encode()
            return
        rest, comma = part.answer.removeprefix("{"), b""
        yield f'{{"{part.listed}":['.encode()
        while True:
            for block in part.blocks:
                yield comma + zlib.decompressobj().decompress(block, REST_BLOCK_BYTES)
                comma = b","
            if part.after is None:
                break
            part = await self._part(ref, read.model_copy(update={"after": part.after}))
        yield f"],{rest}".encode()
