"""Spans: what a request, a message or a decision took, exported by OTLP where an endpoint is configured.

Without an endpoint (`OTEL_EXPORTER_OTLP_ENDPOINT`) nothing of OpenTelemetry's SDK is imported, and no span is made.
Names of spans have few values: ids are attributes. Attributes hold no secrets and no content of jobs.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from typing import Any, Protocol

import structlog
from clusterra_contracts.bus.envelope import TRACEPARENT
from opentelemetry.context import Context
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    get_current_span,
    use_span,
)

from clusterra_runtime import trace

__all__ = ["Span", "SpanKind", "enabled", "entry", "failed", "links_to", "record", "span", "start", "stop"]

log = structlog.get_logger(__name__)

TENANT = "clusterra.tenant"
CLUSTER = "clusterra.cluster"
NO_SPAN = nullcontext(INVALID_SPAN)

type Attributes = Mapping[str, str | int | float | bool]
type SpanEvent = tuple[str, datetime, Attributes]
"""A moment within a span: its name, its time, its attributes."""

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class _Export(Protocol):
    """The SDK's side: makes spans and exports them."""

    tracer: Tracer

    def stop(self, seconds: float) -> None: ...


_export: _Export | None = None


def start(service: str, instance: str) -> None:
    """Export the spans of this process, if the standard `OTEL_*` variables name an endpoint; otherwise do nothing."""
    global _export
    if not _wanted(os.environ):
        return
    from clusterra_runtime.tracing_export import Export  # the SDK takes 10 MiB and 0.2 s

    try:
        _export = Export(service, instance)
    except Exception:
        # A wrong `OTEL_*` variable must not keep a service from its work.
        log.exception("spans_not_exported")


def stop(seconds: float) -> None:
    """Export what is left, for at most `seconds`. Blocks; spans are no longer made after it."""
    global _export
    export, _export = _export, None
    if export is not None:
        export.stop(seconds)


def enabled() -> bool:
    """Whether spans are exported."""
    return _export is not None


def recording() -> bool:
    """Whether the current trace is recorded, so that a span in it would be exported."""
    context = get_current_span().get_span_context()
    return _export is not None and context.is_valid and context.trace_flags.sampled


def current() -> Span:
    """The current span, for more attributes; where none is made, attributes are ignored."""
    return get_current_span()


@contextmanager
def entry(
    headers: Mapping[str, str] | None,
    name: str,
    kind: SpanKind = SpanKind.INTERNAL,
    attributes: Attributes | None = None,
    *,
    links: Sequence[Link] = (),
    start: datetime | None = None,
) -> Iterator[Span]:
    """Enter the trace that the headers name, or else a new one, with a span of one's own.

    Use it where work begins: a new trace is recorded as `OTEL_TRACES_SAMPLER` decides. Use `span` for everything that
    is a part of other work.
    """
    with trace.extract(headers):
        if _export is None:
            yield INVALID_SPAN
        else:
            parent = get_current_span()
            context = Context() if not parent.get_span_context().is_remote else None
            made = _export.tracer.start_span(name, context, kind, attributes, links, _nanoseconds(start))
            with _ending(made):
                yield made


@contextmanager
def span(
    name: str,
    kind: SpanKind = SpanKind.INTERNAL,
    attributes: Attributes | None = None,
    *,
    start: datetime | None = None,
) -> Iterator[Span]:
    """A span within the current trace. Outside a recorded trace there is none: periodic work makes no traces."""
    if _export is None or not recording():  # the first part is for the type checker
        yield INVALID_SPAN
        return
    made = _export.tracer.start_span(name, None, kind, attributes, None, _nanoseconds(start))
    with _ending(made):
        yield made


def record(
    traceparent: str,
    name: str,
    start: datetime,
    end: datetime,
    attributes: Attributes,
    *,
    events: Sequence[SpanEvent] = (),
    links: Sequence[Link] = (),
) -> None:
    """Add a span that is over to a trace of the past, if that trace is recorded."""
    if _export is None:
        return
    with trace.extract({TRACEPARENT: traceparent}):
        if not recording():
            return
        made = _export.tracer.start_span(name, None, SpanKind.INTERNAL, attributes, links, _nanoseconds(start))
        for event, moment, details in events:
            made.add_event(event, details, _nanoseconds(moment))
        made.end(_nanoseconds(max(end, start)))


def traceparent() -> str:
    """The current `traceparent`; empty outside a trace."""
    return trace.current() or ""


def links_to(traceparents: Sequence[str]) -> list[Link]:
    """Links to other traces; texts that are no `traceparent` are left out."""
    contexts = [trace.context_of(traceparent) for traceparent in traceparents]
    return [Link(context) for context in contexts if context is not None]


def failed(made: Span, kind: str) -> None:
    """Mark a span as failed, with the kind of error. The kind has few values; texts of errors stay in the logs."""
    made.set_attribute("error.type", kind)
    made.set_status(Status(StatusCode.ERROR))


@contextmanager
def _ending(made: Span) -> Iterator[None]:
    # The SDK would copy the texts of exceptions into the span, and they may hold what a user sent.
    with use_span(made, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield
        except Exception as error:
            failed(made, type(error).__name__)
            raise


def _wanted(environment: Mapping[str, str]) -> bool:
    def value(name: str) -> str:
        return environment.get(name, "").strip()

    if not any(value(name) for name in _ENDPOINTS) or value("OTEL_SDK_DISABLED").lower() == "true":
        return False
    if value("OTEL_TRACES_EXPORTER") not in ("", "otlp"):
        return False
    protocol = value("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or value("OTEL_EXPORTER_OTLP_PROTOCOL")
    if protocol not in ("", "http/protobuf"):
        log.warning("spans_not_exported", protocol=protocol, hint="only http/protobuf is supported")
        return False
    return True


def _nanoseconds(moment: datetime | None) -> Any:
    return None if moment is None else int(moment.timestamp() * 1e9)
