"""The traces that a snapshot names, from comments that users may have written."""

from collections.abc import Iterator

import pytest
from clusterra_proxy.slurmrestd.comment import Comment
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.watch.job_spans import MAX_TRACES, pending_traces
from clusterra_runtime import tracing

RECORDED = f"00-{'a' * 32}-{'b' * 16}-01"
NOT_RECORDED = f"00-{'a' * 32}-{'b' * 16}-00"
FORGED = (
    "x" * 600,
    "",
    RECORDED + "0",
    RECORDED.upper(),
    RECORDED + "\n",
    f"00-{'0' * 32}-{'b' * 16}-01",
    f"00-{'a' * 32}-{'0' * 16}-01",
    f"ff-{'a' * 32}-{'b' * 16}-01",
)


@pytest.fixture(autouse=True)
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    tracing.start("proxy", "test")
    yield
    tracing.stop(0.0)


def pending(job_id: int, trace: str) -> JobRecord:
    comment = str(Comment(user="alice", uid="5001", trace=trace)) if trace else "mine"
    return JobRecord.model_validate({"job_id": job_id, "job_state": ["PENDING"], "comment": comment})


def test_the_newest_recorded_traces_are_named() -> None:
    jobs = [pending(number, RECORDED if number % 2 else NOT_RECORDED) for number in range(1, 400)]

    traces = pending_traces(jobs)

    assert list(traces.items()) == [(str(number), RECORDED) for number in range(399, 399 - 2 * MAX_TRACES, -2)]


def test_no_more_comments_are_read_than_needed() -> None:
    jobs = [pending(number, RECORDED) for number in range(1, 10_001)]

    pending_traces(jobs)

    assert sum("parsed_comment" in vars(job) for job in jobs) == MAX_TRACES


@pytest.mark.parametrize("trace", FORGED)
def test_a_trace_that_is_none_is_left_out_without_a_log_line(trace: str, caplog: pytest.LogCaptureFixture) -> None:
    traces = pending_traces([pending(number, trace) for number in range(1, 100)])

    assert not traces
    assert not caplog.records


@pytest.mark.parametrize("trace", FORGED)
def test_a_comment_gives_no_trace_that_is_none(trace: str) -> None:
    assert Comment.parse(f"clusterra:user=alice;trace={trace}") == Comment(user="alice")
