"""Answers with what a job has written so far, or with a part of it."""

from functools import partial
from http import HTTPStatus
from typing import Annotated

from aiohttp import web
from clusterra_contracts.rpc.edge import LOG_CHUNK_BYTES
from clusterra_runtime.nats.rpc import RpcFailed
from pydantic import Field

from clusterra_gateway.bus.requests import EdgeRequests, OutputStream
from clusterra_gateway.http.answers.responses import NO_STORE
from clusterra_gateway.http.answers.streams import CutOff, read_on, send
from clusterra_gateway.http.requests.errors import NotFound, RangeNotSatisfiable
from clusterra_gateway.http.requests.parameters import Query, byte_range
from clusterra_gateway.jobs.output.output import MAX_TAIL_LINES, Output, start_of_tail


class OutputQuery(Query):
    """The output to read: from its start, from the byte offset `after`, or from its last `tail` lines on.

    With both, it begins at the later of the two.
    """

    stream: OutputStream = "stdout"
    after: Annotated[int, Field(ge=0, lt=10**18)] | None = None
    tail: Annotated[int, Field(ge=0, le=MAX_TAIL_LINES)] | None = None


async def beginning(edge: EdgeRequests, output: Output, wanted: OutputQuery) -> int:
    """The byte offset at which the wanted output begins. Raises NotFound, RpcFailed."""
    tail = 0 if wanted.tail is None else await start_of_tail(edge, output, wanted.tail)
    return max(tail, wanted.after or 0)


class WholeOutput:
    """Sends outputs that the caller was found to be allowed to read."""

    def __init__(self, edge: EdgeRequests) -> None:
        self._edge = edge

    async def answer(self, request: web.Request, wanted: OutputQuery, output: Output) -> web.StreamResponse:
        """Sends the wanted part, or that of the request's Range. Raises NotFound, RangeNotSatisfiable, RpcFailed."""
        part = byte_range(request) if wanted.after is None and wanted.tail is None else None
        try:
            size = (await self._edge.output(output.ref, output.part(output.job, 0, limit=1))).size
            begin, end = part.within(size) if part else (await beginning(self._edge, output, wanted), size)
        except RpcFailed as failed:
            if failed.error.kind != "not_found":
                raise
            raise NotFound(
                f"job {output.job.job_id} has no {output.stream}; it is {output.job.state}",
                hint="a job has output once it runs and writes to the cluster's shared file system; without --error,"
                " its stderr is in its stdout; each task of an array has its own, such as 42_7",
            ) from None
        if begin > size:
            raise RangeNotSatisfiable(
                f"after is {begin}, but the {output.stream} of job {output.job.job_id} has {size} bytes",
                size=size,
                hint="read it without `after`; the output of a job that is requeued starts again",
            )
        response = web.StreamResponse(headers={**NO_STORE, "Accept-Ranges": "bytes"})
        response.content_type = "text/plain"
        response.charset = "utf-8"
        response.content_length = end - begin
        if part is not None:
            response.set_status(HTTPStatus.PARTIAL_CONTENT)
            response.headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
        return await send(
            request, response, read_on(request, range(begin, end), LOG_CHUNK_BYTES, partial(self._bytes, output))
        )

    async def _bytes(self, output: Output, offset: int, limit: int) -> bytes:
        """Some bytes of an output. Raises RpcFailed, and CutOff for an output that became shorter."""
        chunk = await self._edge.output(output.ref, output.part(output.job, offset, limit=limit))
        if not chunk.data:
            raise CutOff("the output became shorter")
        return chunk.data
