"""The routes of a job's output: the present output or a part of it, or a stream that follows it."""

from functools import partial
from http import HTTPStatus
from typing import Annotated

from aiohttp import web
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.edge import LOG_CHUNK_BYTES
from clusterra_runtime.nats.rpc import RpcFailed
from pydantic import Field

from clusterra_gateway.bus.event_feed import EventFeed
from clusterra_gateway.bus.requests import EdgeRequests, OutputStream, SlurmRequests
from clusterra_gateway.http.answers.responses import NO_STORE
from clusterra_gateway.http.answers.sse import EVENT_STREAM, LAST_EVENT_ID, last_event_id, stream
from clusterra_gateway.http.answers.streams import CutOff, read_on, send
from clusterra_gateway.http.requests.errors import NotFound, RangeNotSatisfiable
from clusterra_gateway.http.requests.parameters import JOB_ID, RANGE, Query, byte_range, job_id, query
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes
from clusterra_gateway.jobs.output.follow import OutputFollower
from clusterra_gateway.jobs.output.output import MAX_TAIL_LINES, Output, start_of_tail

OUTPUT = f"{CLUSTER}/jobs/{{job_id}}/output"


api = cluster_routes(JOB_ID, reads=Needs("jobs:read"))


class OutputQuery(Query):
    """The output to read: from its start, from the byte offset `after`, or from its last `tail` lines on.

    With both, it begins at the later of the two.
    """

    stream: OutputStream = "stdout"
    after: Annotated[int, Field(ge=0, lt=10**18)] | None = None
    tail: Annotated[int, Field(ge=0, le=MAX_TAIL_LINES)] | None = None


class Outputs:
    """The handlers of outputs."""

    def __init__(self, access: Access, slurm: SlurmRequests, edge: EdgeRequests, feed: EventFeed) -> None:
        self._access = access
        self._slurm = slurm
        self._edge = edge
        self._follower = OutputFollower(slurm, edge, feed)

    @api.get("jobs_output", OUTPUT, ranges=True, parameters=(RANGE,), query=OutputQuery, result="text/plain")
    async def whole(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Returns what the job has written so far, byte for byte.

        All of it, or what follows the byte offset `after`, or its last `tail` lines, of which at most the last MiB is
        returned. With a Range, 206 and these bytes; a Range is ignored beside `after` and `tail`.
        """
        wanted = query(request, OutputQuery)
        part = byte_range(request) if wanted.after is None and wanted.tail is None else None
        output = await self._output(request, caller, ref, wanted.stream)
        try:
            size = (await self._edge.output(ref, output.part(output.job, 0, limit=1))).size
            begin, end = (await self._begin(output, wanted), size) if part is None else part.within(size)
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
        read = partial(self._bytes, output)
        return await send(request, response, read_on(request, range(begin, end), LOG_CHUNK_BYTES, read))

    async def _bytes(self, output: Output, offset: int, limit: int) -> bytes:
        """Some bytes of an output. Raises RpcFailed, and CutOff for an output that became shorter."""
        chunk = await self._edge.output(output.ref, output.part(output.job, offset, limit=limit))
        if not chunk.data:
            raise CutOff("the output became shorter")
        return chunk.data

    @api.get(
        "jobs_output_stream",
        f"{OUTPUT}/stream",
        stream=True,
        parameters=(LAST_EVENT_ID,),
        query=OutputQuery,
        result=EVENT_STREAM,
    )
    async def followed(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Streams the job's output as it is written. The `id` of each event is the byte offset behind it.

        The `end` event comes last. A new stream begins at the start, at the byte offset `after`, or with the last
        `tail` lines, but at most 1 MiB before the end. A Last-Event-ID goes before both.
        """
        wanted, resumed = query(request, OutputQuery), last_event_id(request)
        output = await self._output(request, caller, ref, wanted.stream)
        offset = await self._begin(output, wanted) if resumed is None else resumed
        source = self._follower.follow(output, offset=offset)
        return await stream(request, source, self._access.stream_permission(request, caller))

    async def _output(self, request: web.Request, caller: Caller, ref: ClusterRef, wanted: OutputStream) -> Output:
        job = await self._slurm.job(ref, caller.viewer, job_id(request))
        output = Output(ref, caller.viewer, job, wanted, self._access.shared_path(ref))
        output.check_path(job)
        return output

    async def _begin(self, output: Output, wanted: OutputQuery) -> int:
        """The byte offset at which the wanted output begins."""
        tail = 0 if wanted.tail is None else await start_of_tail(self._edge, output, wanted.tail)
        return max(tail, wanted.after or 0)
