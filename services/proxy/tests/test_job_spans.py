"""The traces that a snapshot names, from comments that users may have written."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from clusterra_contracts.identity import ClusterRef, now
from clusterra_proxy.slurmrestd.notation.comment import Comment
from clusterra_proxy.slurmrestd.records import JobRecord, NodeRecord
from clusterra_proxy.watch.job_facts import JobTransition
from clusterra_proxy.watch.job_spans import MAX_TRACES, MAX_WAITING, JobSpans, pending_traces
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


SUBMITTED = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
REGISTERED, STARTED = SUBMITTED + timedelta(seconds=3), SUBMITTED + timedelta(seconds=4)
NODE = NodeRecord.model_validate({"name": "w1", "slurmd_start_time": int(REGISTERED.timestamp())})
BEGUN = JobTransition("7", "job.running", "", STARTED)


class Spans:
    """Records the spans of a cluster whose jobs run on `w1`, which is not known yet."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.recorded: list[list[str]] = []
        self.cluster = Mock(ref=ClusterRef(tenant="acme", cluster="main"), nodes={}, nodes_observed_at=None)
        self.spans = JobSpans(self.cluster)
        monkeypatch.setattr(tracing, "record", self._record)

    def _record(self, *_span: Any, events: Any = (), **_more: Any) -> None:
        self.recorded.append([name for name, _, _ in events])

    def begin(self) -> None:
        """A job that has begun is read."""
        fields = {"job_id": 7, "job_state": ["RUNNING"], "submit_time": int(SUBMITTED.timestamp())}
        comment = str(Comment(user="alice", uid="5001", trace=RECORDED))
        self.spans.add(BEGUN, JobRecord.model_validate(fields | {"comment": comment, "nodes": "w1"}))


def test_a_job_that_is_read_before_the_registration_of_its_node_has_it_in_its_span(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began = now()
    told = Spans(monkeypatch)
    told.begin()

    # This read of the nodes began before the job was read.
    told.cluster.nodes_observed_at = began
    told.spans.record_waiting()
    assert told.recorded == []

    told.cluster.nodes, told.cluster.nodes_observed_at = {"w1": NODE}, now()
    told.spans.record_waiting()
    assert told.recorded == [["worker registered"]]


def test_a_span_of_known_nodes_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Spans(monkeypatch)
    told.cluster.nodes = {"w1": NODE}

    told.begin()

    assert told.recorded == [["worker registered"]]


def test_spans_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Spans(monkeypatch)

    for _ in range(MAX_WAITING + 5):
        told.begin()

    assert told.recorded == [[]] * 5


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
