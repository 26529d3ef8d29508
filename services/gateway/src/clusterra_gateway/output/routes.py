"""The routes of a job's output: all of the present output, or a stream that follows it."""

import structlog
from aiohttp import web
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.event_feed import EventFeed
from clusterra_gateway.bus.requests import EdgeRequests, OutputStream, SlurmRequests
from clusterra_gateway.http.errors import NotFound
from clusterra_gateway.http.parameters import JOB_ID, Query, job_id, query
from clusterra_gateway.http.responses import NO_STORE
from clusterra_gateway.http.route import Route
from clusterra_gateway.http.sse import EVENT_STREAM, LAST_EVENT_ID, last_event_id, stream
from clusterra_gateway.http.writing import break_off, write
from clusterra_gateway.identity.access import Access
from clusterra_gateway.identity.authentication import Caller
from clusterra_gateway.identity.private_route import CLUSTER, CLUSTER_ID, ClusterRoute
from clusterra_gateway.output.follow import Output, OutputFollower

log = structlog.get_logger()

OUTPUT = f"{CLUSTER}/jobs/{{job_id}}/output"


class OutputQuery(Query):
    """The output to read."""

    stream: OutputStream = "stdout"


class Outputs:
    """The handlers of outputs."""

    def __init__(self, access: Access, slurm: SlurmRequests, edge: EdgeRequests, feed: EventFeed) -> None:
        self._access = access
        self._slurm = slurm
        self._edge = edge
        self._follower = OutputFollower(slurm, edge, feed)

    async def whole(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Returns all that the job has written so far, byte for byte."""
        output = await self._output(request, caller, ref)
        try:
            chunk = await self._edge.output(ref, output.part(output.job, 0))
        except RpcFailed as failed:
            if failed.error.kind != "not_found":
                raise
            raise NotFound(
                f"job {output.job.job_id} has no {output.stream} (yet); it is {output.job.state}",
                hint="a job has output once it runs and writes to the cluster's shared file system",
            ) from None
        response = web.StreamResponse(headers=NO_STORE)
        response.content_type = "text/plain"
        response.charset = "utf-8"
        await response.prepare(request)
        end = chunk.size
        try:
            while chunk.data:
                await write(request, response, chunk.data)
                offset = chunk.offset + len(chunk.data)
                if offset >= end:
                    break
                chunk = await self._edge.output(ref, output.part(output.job, offset))
        except ConnectionResetError:
            pass  # the client has left, or was left
        except RpcFailed as failed:
            log.warning("output_cut_off", job=output.job.job_id, reason=failed.error.detail)
            break_off(request)
        return response

    async def followed(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Streams the job's output as it is written. The `id` of each event is the byte offset behind it.

        The `end` event comes last.
        """
        offset = last_event_id(request) or 0
        output = await self._output(request, caller, ref)
        source = self._follower.follow(output, offset=offset)
        return await stream(request, source, self._access.stream_permission(request, caller))

    async def _output(self, request: web.Request, caller: Caller, ref: ClusterRef) -> Output:
        wanted = query(request, OutputQuery)
        job = await self._slurm.job(ref, caller.viewer, job_id(request))
        output = Output(ref, caller.viewer, job, wanted.stream, self._access.shared_path(ref))
        output.check_path(job)
        return output


def routes(access: Access, slurm: SlurmRequests, edge: EdgeRequests, feed: EventFeed) -> tuple[Route, ...]:
    """All routes of this room."""
    outputs = Outputs(access, slurm, edge, feed)
    return (
        ClusterRoute(
            "jobs_output",
            "GET",
            OUTPUT,
            outputs.whole,
            access=access,
            scope="jobs:read",
            parameters=(CLUSTER_ID, JOB_ID),
            query=OutputQuery,
            result="text/plain",
        ),
        ClusterRoute(
            "jobs_output_stream",
            "GET",
            f"{OUTPUT}/stream",
            outputs.followed,
            access=access,
            scope="jobs:read",
            stream=True,
            parameters=(CLUSTER_ID, JOB_ID, LAST_EVENT_ID),
            query=OutputQuery,
            result=EVENT_STREAM,
        ),
    )
