"""The trace of what is being done: W3C Trace Context, carried in the `traceparent` header and in every log line.

Only OpenTelemetry's API is used, so a service that configures its SDK gets these traces as parents of its spans.
"""

import secrets
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager

from clusterra_contracts.bus.envelope import TRACEPARENT
from opentelemetry import context, trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_propagator = TraceContextTextMapPropagator()


def current() -> str | None:
    """The present `traceparent`, `00-<trace id>-<span id>-<flags>`; None outside of any trace."""
    headers: dict[str, str] = {}
    _propagator.inject(headers)
    return headers.get(TRACEPARENT)


def trace_id() -> str | None:
    """The present trace's id, 32 hexadecimal digits; None outside of any trace."""
    span = trace.get_current_span().get_span_context()
    return trace.format_trace_id(span.trace_id) if span.is_valid else None


def inject(headers: MutableMapping[str, str]) -> None:
    """Add the present trace to the headers of a message or request that is about to be sent."""
    _propagator.inject(headers)


@contextmanager
def extract(headers: Mapping[str, str] | None) -> Iterator[None]:
    """Work inside the trace that these headers name (HTTP spells them in any case); without one, start one."""
    carrier = {key.lower(): value for key, value in (headers or {}).items()}
    remote = _propagator.extract(carrier, context.Context())
    if not trace.get_current_span(remote).get_span_context().is_valid:
        remote = trace.set_span_in_context(trace.NonRecordingSpan(_root()), context.Context())
    token = context.attach(remote)
    try:
        yield
    finally:
        context.detach(token)


def _root() -> trace.SpanContext:
    return trace.SpanContext(
        trace_id=int(secrets.token_hex(16), 16),
        span_id=int(secrets.token_hex(8), 16),
        is_remote=False,
        trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
    )
