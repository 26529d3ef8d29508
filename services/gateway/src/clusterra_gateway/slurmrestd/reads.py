"""Reads that are passed on to slurmrestd. A list of any length is written part by part as the client reads it."""

import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from aiohttp import web
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.slurm_rest import REST_BLOCK_BYTES, ReadRest, RestPart

from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.http.answers.responses import NO_STORE, json_bytes
from clusterra_gateway.http.answers.streams import send
from clusterra_gateway.http.requests.errors import InvalidRequest
from clusterra_gateway.http.requests.parameters import Parameter, Query, path_id, query
from clusterra_gateway.identity.access.authentication import Caller

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
        return await send(request, response, self._text(ref, read, first))

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
