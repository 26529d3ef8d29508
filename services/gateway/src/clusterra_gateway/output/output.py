"""What a job writes: the whole of it, or as it grows."""

import structlog
from aiohttp import web
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.upstream import OutputStream
from clusterra_gateway.context import gateway
from clusterra_gateway.http.errors import NotFound
from clusterra_gateway.http.parameters import Query, cluster, job_id, query
from clusterra_gateway.http.sse import last_event_id, stream
from clusterra_gateway.identity.authentication import Caller
from clusterra_gateway.output.follow import Output, follow

log = structlog.get_logger()


class OutputQuery(Query):
    """Which output."""

    stream: OutputStream = "stdout"


async def _output(request: web.Request, caller: Caller) -> Output:
    parts = gateway(request)
    ref = cluster(request, caller, parts.registry)
    wanted = query(request, OutputQuery)
    job = await parts.upstream.job(ref, caller.viewer, job_id(request))
    return Output(ref, caller.viewer, job, wanted.stream)


async def output(request: web.Request, caller: Caller) -> web.StreamResponse:
    """All that the job has written by now, in its own bytes."""
    parts = gateway(request)
    wanted = await _output(request, caller)
    try:
        chunk = await parts.upstream.output(wanted.ref, wanted.job, wanted.stream, offset=0)
    except RpcFailed as failed:
        if failed.error.kind != "not_found":
            raise
        raise NotFound(
            f"job {wanted.job.job_id} has no {wanted.stream} (yet); it is {wanted.job.state}",
            hint="a job has output once it runs, when it writes to the cluster's shared folder",
        ) from None
    response = web.StreamResponse(headers={"Cache-Control": "no-store"})
    response.content_type = "text/plain"
    response.charset = "utf-8"
    await response.prepare(request)
    end = chunk.size
    try:
        while chunk.data:
            await response.write(chunk.data)
            offset = chunk.offset + len(chunk.data)
            if offset >= end:
                break
            chunk = await parts.upstream.output(wanted.ref, wanted.job, wanted.stream, offset=offset)
    except ConnectionResetError:
        pass  # the client has left
    except RpcFailed as failed:
        log.warning("output_cut_off", job=wanted.job.job_id, reason=failed.error.detail)
        if request.transport is not None:
            request.transport.abort()  # the client must not take a part for the whole
    return response


async def output_stream(request: web.Request, caller: Caller) -> web.StreamResponse:
    """The job's output as it is written: `id` is the offset in bytes behind a part, `end` comes when all is told."""
    parts = gateway(request)
    offset = last_event_id(request) or 0
    wanted = await _output(request, caller)
    source = follow(parts.upstream, parts.feed, wanted, offset=offset)
    return await stream(request, source, allowed=parts.authentication.allows(request))
