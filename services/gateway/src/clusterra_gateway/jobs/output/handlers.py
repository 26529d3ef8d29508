"""The routes of a job's output: the present output or a part of it, or a stream that follows it."""

from aiohttp import web
from clusterra_contracts.identity import ClusterRef

from clusterra_gateway.bus.event_feed import EventFeed
from clusterra_gateway.bus.requests import EdgeRequests, OutputStream, SlurmRequests
from clusterra_gateway.http.answers.sse import EVENT_STREAM, LAST_EVENT_ID, last_event_id, stream
from clusterra_gateway.http.requests.parameters import JOB_ID, RANGE, job_id, query
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes
from clusterra_gateway.jobs.output.follow import OutputFollower
from clusterra_gateway.jobs.output.output import Output
from clusterra_gateway.jobs.output.whole import OutputQuery, WholeOutput, beginning

OUTPUT = f"{CLUSTER}/jobs/{{job_id}}/output"


api = cluster_routes(JOB_ID, reads=Needs("jobs:read"))


class Outputs:
    """The handlers of outputs."""

    def __init__(self, access: Access, slurm: SlurmRequests, edge: EdgeRequests, feed: EventFeed) -> None:
        self._access = access
        self._slurm = slurm
        self._edge = edge
        self._whole = WholeOutput(edge)
        self._follower = OutputFollower(slurm, edge, feed)

    @api.get("jobs_output", OUTPUT, ranges=True, parameters=(RANGE,), query=OutputQuery, result="text/plain")
    async def whole(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Returns what the job has written so far, byte for byte.

        All of it, or what follows the byte offset `after`, or its last `tail` lines, of which at most the last MiB is
        returned. With a Range, 206 and these bytes; a Range is ignored beside `after` and `tail`.
        """
        wanted = query(request, OutputQuery)
        return await self._whole.answer(request, wanted, await self._output(request, caller, ref, wanted.stream))

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
        offset = await beginning(self._edge, output, wanted) if resumed is None else resumed
        source = self._follower.follow(output, offset=offset)
        return await stream(request, source, self._access.stream_permission(request, caller))

    async def _output(self, request: web.Request, caller: Caller, ref: ClusterRef, wanted: OutputStream) -> Output:
        job = await self._slurm.job(ref, caller.viewer, job_id(request))
        output = Output(ref, caller.viewer, job, wanted, self._access.shared_path(ref))
        output.check_path(job)
        return output
