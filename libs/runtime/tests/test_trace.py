"""Traces in headers."""

from clusterra_runtime import trace
from hypothesis import given, strategies

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_there_is_no_trace_outside_a_trace() -> None:
    headers: dict[str, str] = {}
    trace.inject(headers)
    assert (trace.current(), trace.trace_id(), headers) == (None, None, {})


def test_a_trace_is_passed_from_header_to_header() -> None:
    headers: dict[str, str] = {}
    with trace.extract({"Traceparent": TRACEPARENT}):
        assert trace.current() == TRACEPARENT
        assert trace.trace_id() == "0af7651916cd43dd8448eb211c80319c"

        trace.inject(headers)

    assert headers == {"traceparent": TRACEPARENT}
    assert trace.current() is None


@given(strategies.text())
def test_an_invalid_header_starts_a_new_trace(given_header: str) -> None:
    trace_ids = set()
    for headers in (None, {}, {"traceparent": given_header}):
        with trace.extract(headers):
            trace_ids.add(trace.trace_id())
    assert None not in trace_ids
    assert len(trace_ids) == 3


def test_traces_nest() -> None:
    with trace.extract({"traceparent": TRACEPARENT}):
        with trace.extract(None):
            assert trace.current() != TRACEPARENT
        assert trace.current() == TRACEPARENT
