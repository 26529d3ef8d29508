"""A receiver of traces by OTLP/HTTP, which decodes them with OpenTelemetry's own messages and keeps them."""

import gzip
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

MAX_BYTES = 16 * 1024**2
_PROTOBUF = "application/x-protobuf"


@dataclass(frozen=True)
class ReceivedSpan:
    """A span, with the service that exported it. Ids are hexadecimal; times are seconds since the epoch."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: str
    """Such as `SPAN_KIND_SERVER`."""
    start: float
    end: float
    attributes: Mapping[str, str | int]
    events: tuple[str, ...]
    linked_traces: frozenset[str]
    failed: bool


@dataclass
class OtlpReceiver:
    """The spans received so far."""

    endpoint: str = ""
    """The value of `OTEL_EXPORTER_OTLP_ENDPOINT`."""
    spans: list[ReceivedSpan] = field(default_factory=list)
    requests: int = 0
    status: int = 200
    """What requests are answered with; spans are kept only with 200."""

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which a service exports to this receiver, without delay."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "200"}

    def trace(self, trace_id: str) -> list[ReceivedSpan]:
        """The spans of one trace, by start."""
        return sorted((span for span in self.spans if span.trace_id == trace_id), key=lambda span: span.start)

    async def _receive(self, request: web.Request) -> web.Response:
        self.requests += 1
        body = await request.read()
        if self.status != web.HTTPOk.status_code:
            return web.Response(status=self.status)
        if request.headers.get("Content-Encoding") == "gzip" and body.startswith(b"\x1f\x8b"):
            body = gzip.decompress(body)
        message = ExportTraceServiceRequest()
        message.ParseFromString(body)
        for of_resource in message.resource_spans:
            resource = {item.key: item.value.string_value for item in of_resource.resource.attributes}
            for scope in of_resource.scope_spans:
                self.spans.extend(_received(resource.get("service.name", ""), span) for span in scope.spans)
        return web.Response(body=ExportTraceServiceResponse().SerializeToString(), content_type=_PROTOBUF)


@asynccontextmanager
async def otlp_receiver() -> AsyncIterator[OtlpReceiver]:
    """Receive traces on a free port until the block ends."""
    receiver = OtlpReceiver()
    application = web.Application(client_max_size=MAX_BYTES)
    application.router.add_post("/v1/traces", receiver._receive)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        receiver.endpoint = f"http://127.0.0.1:{site.port}"
        yield receiver
    finally:
        await runner.cleanup()


def _received(service: str, span: Span) -> ReceivedSpan:
    return ReceivedSpan(
        service=service,
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        kind=Span.SpanKind.Name(span.kind),
        start=span.start_time_unix_nano / 1e9,
        end=span.end_time_unix_nano / 1e9,
        attributes={
            item.key: item.value.int_value if item.value.HasField("int_value") else item.value.string_value
            for item in span.attributes
        },
        events=tuple(event.name for event in span.events),
        linked_traces=frozenset(link.trace_id.hex() for link in span.links),
        failed=span.status.code == Status.STATUS_CODE_ERROR,
    )
