"""The export of spans by OpenTelemetry's SDK. Only `tracing.start` imports this module, where an endpoint is set.

The standard variables configure everything: `OTEL_EXPORTER_OTLP_*`, `OTEL_BSP_*` (the bounded queue),
`OTEL_TRACES_SAMPLER`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SERVICE_NAME`.
"""

import logging
import threading
import time
from collections.abc import Sequence
from typing import override

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from clusterra_runtime.metrics import SPANS

QUIET_SECONDS = 30.0
"""How often the SDK may log the same line: a receiver that is away fails every export."""
_TALKATIVE = ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry.sdk._shared_internal")


class Export:
    """A tracer, and the thread that exports its spans."""

    def __init__(self, service: str, instance: str) -> None:
        ours = {"service.namespace": "clusterra", "service.name": service, "service.instance.id": instance}
        resource = Resource.create().merge(Resource(ours)).merge(OTELResourceDetector().detect())
        for name in _TALKATIVE:
            logging.getLogger(name).addFilter(_Seldom())
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._processor = BatchSpanProcessor(_Counted(OTLPSpanExporter()))
        provider.add_span_processor(self._processor)
        self.tracer = provider.get_tracer("clusterra")

    def stop(self, seconds: float) -> None:
        """Export the queued spans for at most `seconds`; those left then are lost."""
        # The SDK's own shutdown waits up to 30 s for a receiver that does not answer.
        flush = threading.Thread(target=self._processor.shutdown, name="spans", daemon=True)
        flush.start()
        flush.join(seconds)


class _Counted(SpanExporter):
    """Counts the spans by the outcome of their export."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    @override
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        outcome = "exported" if result is SpanExportResult.SUCCESS else "failed"
        SPANS.labels(outcome).inc(len(spans))
        return result

    @override
    def shutdown(self) -> None:
        self._exporter.shutdown()


class _Seldom(logging.Filter):
    """Passes one line of a logger in 30 s."""

    def __init__(self) -> None:
        super().__init__()
        self._passed_at = float("-inf")

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._passed_at < QUIET_SECONDS:
            return False
        self._passed_at = now
        return True
