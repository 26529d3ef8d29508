"""Traces: W3C Trace Context, carried in the `traceparent` header and in every log line.

Only OpenTelemetry's API is used. `clusterra_runtime.tracing` makes the spans, where they are exported.
"""

import secrets
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager

from clusterra_contracts.bus.envelope import TRACEPARENT
from opentelemetry import context, trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_propagator = TraceContextTextMapPropagator()


def current() -> str | None:
    """The current `traceparent`, `00-<trace id>-<span id>-<flags>`; None outside a trace."""
    headers: dict[str, str] = {}
    _propagator.inject(headers)
    return headers.get(TRACEPARENT)


def trace_id() -> str | None:
    """The id of the current trace, 32 hexadecimal digits; None outside a trace."""
    span = trace.get_current_span().get_span_context()
    return trace.format_trace_id(span.trace_id) if span.is_valid else None


def inject(headers: MutableMapping[str, str]) -> None:
    """Add the current trace to the headers of an outgoing message or request."""
    _propagator.inject(headers)


@contextmanager
def extract(headers: Mapping[str, str] | None) -> Iterator[None]:
    """Enter the trace that the headers name (in any case, as in HTTP); start a new trace if they name none."""
    carrier = {key.lower(): value for key, value in (headers or {}).items()}
    remote = _propagator.extract(carrier, context.Context())
    if not trace.get_current_span(remote).get_span_context().is_valid:
        remote = trace.set_span_in_context(trace.NonRecordingSpan(_root()), context.Context())
    token = context.attach(remote)
    try:
        yield
    finally:
        context.detach(token)


def context_of(traceparent: str) -> trace.SpanContext | None:
    """The span that a `traceparent` names; None if it is not valid."""
    found = trace.get_current_span(_propagator.extract({TRACEPARENT: traceparent}, context.Context()))
    return found.get_span_context() if found.get_span_context().is_valid else None


def _root() -> trace.SpanContext:
    return trace.SpanContext(
        trace_id=int(secrets.token_hex(16), 16),
        span_id=int(secrets.token_hex(8), 16),
        is_remote=False,
        # Nobody has chosen to record it: `tracing.entry` makes the traces that are recorded.
        trace_flags=trace.TraceFlags(trace.TraceFlags.DEFAULT),
    )
