from clusterra_runtime import trace
from hypothesis import given, strategies

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_outside_of_a_trace_there_is_none() -> None:
    headers: dict[str, str] = {}
    trace.inject(headers)
    assert (trace.current(), trace.trace_id(), headers) == (None, None, {})


def test_a_trace_goes_from_header_to_header() -> None:
    headers: dict[str, str] = {}
    with trace.extract({"Traceparent": TRACEPARENT}):
        assert trace.current() == TRACEPARENT
        assert trace.trace_id() == "0af7651916cd43dd8448eb211c80319c"
        trace.inject(headers)
    assert headers == {"traceparent": TRACEPARENT}
    assert trace.current() is None


@given(strategies.text())
def test_without_a_valid_one_a_new_trace_begins(given_header: str) -> None:
    seen = set()
    for headers in (None, {}, {"traceparent": given_header}):
        with trace.extract(headers):
            seen.add(trace.trace_id())
    assert None not in seen
    assert len(seen) == 3


def test_traces_nest() -> None:
    with trace.extract({"traceparent": TRACEPARENT}):
        with trace.extract(None):
            assert trace.current() != TRACEPARENT
        assert trace.current() == TRACEPARENT
