"""Large queue snapshots on the bus: nothing is lost, the head is read alone, and what is damaged or huge is refused."""

import gzip
import json
import time
import zlib
from datetime import UTC, datetime, timedelta

import pytest
from clusterra_contracts.bus import large_queue
from clusterra_contracts.bus.envelope import MAX_DECODED_BYTES, InvalidMessage, decode, encode
from clusterra_contracts.bus.large_queue import (
    FORM,
    LARGE,
    MAX_BODY_BYTES,
    MAX_HEAD_BYTES,
    QueueTooLarge,
    decode_head,
    decode_snapshot,
    encode_large,
)
from clusterra_contracts.queue import NodeState, PendingJobs, QueueCounts, QueueSnapshot, RunningJob
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from large_queue import large_snapshot

START = datetime(2026, 3, 1, 12, tzinfo=UTC)

texts = st.sampled_from(["", "a", "gpu", 'é"\n\U0001f600', ',"running":[', "]\n}", "x" * 300])
moments = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - timezones
job_ids = st.one_of(
    st.integers(1, 40).map(str), st.builds("{}_{}".format, st.integers(1, 3), st.integers(0, 9_999_999))
)
counts = st.dictionaries(st.sampled_from(["gpu", "gpu:l4"]), st.integers(0, 3), max_size=2)
ranges = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=7).map(tuple)

pending_groups = st.builds(
    PendingJobs,
    job_ids=st.lists(job_ids, max_size=9, unique=True).map(tuple),
    count=st.integers(0, 5),
    array_tasks=st.dictionaries(job_ids, ranges, max_size=3),
    cpus=st.integers(1, 3),
    features=texts,
    partition=st.just("main"),
    uid=st.integers(0, 2),
    reason=texts,
    begins_at=st.none() | moments,
    first_submitted_at=moments,
)
running_jobs = st.builds(
    RunningJob,
    job_id=job_ids,
    uid=st.integers(0, 1),
    user=texts,
    nodes=st.lists(texts, max_size=3).map(tuple),
    cpus=st.integers(1, 2),
    started_at=moments,
    ends_by=st.none() | moments,
    gres=st.dictionaries(texts, counts, max_size=2),
)
node_states = st.builds(
    NodeState,
    name=texts,
    states=st.sampled_from([("IDLE",), ("MIXED", "DRAIN")]),
    cpus=st.just(2),
    cpus_allocated=st.integers(0, 1),
    memory_mib=st.just(5),
    memory_allocated_mib=st.just(0),
    gres=counts,
    reason=texts,
    idle_since=st.none() | moments,
)
snapshots = st.builds(
    QueueSnapshot,
    generation=st.integers(1, 2**60),
    taken_at=moments,
    published_at=st.none() | moments,
    pending=st.none() | st.lists(pending_groups, max_size=5).map(tuple),
    running=st.none() | st.lists(running_jobs, max_size=5).map(tuple),
    nodes=st.none() | st.lists(node_states, max_size=5).map(tuple),
    unreadable_jobs=st.integers(0, 2),
    traces=st.dictionaries(job_ids, texts, max_size=2),
)
many_examples = settings(
    max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


@pytest.fixture(params=[1, 2, 100])
def records_per_line(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_queue, "RECORDS_PER_LINE", request.param)


@pytest.mark.usefixtures("records_per_line")
@many_examples
@given(snapshots)
def test_a_large_snapshot_loses_nothing(snapshot: QueueSnapshot) -> None:
    assert decode_snapshot(*encode_large(snapshot)) == snapshot


@pytest.mark.usefixtures("records_per_line")
@many_examples
@given(snapshots)
def test_an_earlier_release_reads_the_same_lists_from_the_whole_body(snapshot: QueueSnapshot) -> None:
    """It takes the body for the JSON of a snapshot, and does not know the counts."""
    read = decode(QueueSnapshot, *encode_large(snapshot))

    assert read.model_copy(update={"counts": None}) == snapshot
    assert read.counts == snapshot.list_counts


@many_examples
@given(snapshots)
def test_the_head_has_all_but_the_lists(snapshot: QueueSnapshot) -> None:
    head = decode_head(*encode_large(snapshot))

    lists = {"pending": None, "running": None, "nodes": None}
    assert head == snapshot.model_copy(update={**lists, "counts": snapshot.list_counts})
    assert head.is_head
    assert head.list_counts == snapshot.list_counts


@given(snapshots)
def test_a_small_snapshot_has_no_head(snapshot: QueueSnapshot) -> None:
    read = decode_head(*encode(snapshot))

    assert read == decode_snapshot(*encode(snapshot)) == snapshot
    assert not read.is_head


def test_a_large_queue_fits_into_a_message() -> None:
    size = (100_000, 60_000, 5_000)
    snapshot = large_snapshot(*size)

    body, headers = encode_large(snapshot)

    assert len(body) < MAX_BODY_BYTES // 2
    assert decode_head(body, headers).counts == QueueCounts(pending=size[0], running=size[1], nodes=size[2])
    assert decode_snapshot(body, headers) == snapshot


def test_a_queue_without_any_equal_jobs_still_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth of 200,000 jobs fits into a fifth of the limits."""
    monkeypatch.setattr(large_queue, "MAX_BODY_BYTES", MAX_BODY_BYTES // 5)
    monkeypatch.setattr(large_queue, "MAX_DECODED_BYTES", MAX_DECODED_BYTES // 5)
    groups = tuple(
        PendingJobs(
            job_ids=(str(number * 2 + 1),),
            count=1,
            cpus=number % 64 + 1,
            partition="main",
            uid=number % 1000,
            reason="Resources",
            time_limit_seconds=number,
            first_submitted_at=START + timedelta(seconds=number),
        )
        for number in range(40_000)
    )

    body, _ = encode_large(QueueSnapshot(generation=1, taken_at=START, pending=groups, running=(), nodes=()))

    assert len(body) < MAX_BODY_BYTES // 5


def test_the_head_is_read_without_the_rest() -> None:
    body, headers = encode_large(large_snapshot(1000, 20_000, 1000))

    head = decode_head(body[: len(body) // 2], headers)

    assert head.counts == QueueCounts(pending=1000, running=20_000, nodes=1000)


@pytest.mark.parametrize(
    ("limit", "bytes_", "told"), [("MAX_BODY_BYTES", 3000, "when compressed"), ("MAX_DECODED_BYTES", 20_000, "before")]
)
def test_a_queue_over_a_limit_is_refused(limit: str, bytes_: int, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_queue, limit, bytes_)

    with pytest.raises(QueueTooLarge, match=told):
        encode_large(large_snapshot(1000, 1000, 200))


def test_a_head_over_its_limit_is_not_sent() -> None:
    traces = {str(number): "x" * 64 for number in range(MAX_HEAD_BYTES // 64)}
    snapshot = large_snapshot(1, 1, 1).model_copy(update={"traces": traces})

    with pytest.raises(QueueTooLarge, match="head"):
        encode_large(snapshot)


@pytest.fixture
def lines() -> list[bytes]:
    return gzip.decompress(encode_large(large_snapshot(10, 10, 10))[0]).split(b"\n")


HEADERS = encode_large(large_snapshot(1, 1, 1))[1]


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (0, b"{"),
        (0, b'{"generation":1,"taken_at":"2026-03-01T12:00:00Z"'),
        (1, b',"pended":['),
        (1, b',"running":['),
        (2, b'{"job_ids":[]}'),
        (2, b"{"),
        (2, b"]"),
        (4, b',"run\xff":['),
    ],
    ids=["head", "no counts", "unknown list", "other list", "invalid record", "not JSON", "lost records", "bytes"],
)
def test_a_damaged_line_is_an_invalid_message(number: int, line: bytes, lines: list[bytes]) -> None:
    lines[number] = line

    with pytest.raises(InvalidMessage):
        decode_snapshot(gzip.compress(b"\n".join(lines)), HEADERS)


def test_a_truncated_or_uncompressed_body_is_an_invalid_message() -> None:
    body, headers = encode_large(large_snapshot(100, 1000, 100))

    for damaged in (body[:-1], body[: len(body) // 2], b"", b"{}", body[:100] + b"\0\0\0" + body[103:]):
        with pytest.raises(InvalidMessage):
            decode_snapshot(damaged, headers)


def test_a_body_that_decompresses_to_more_than_the_bound_is_refused() -> None:
    stream = zlib.compressobj(9, wbits=31)
    head = b'{"generation":1,"taken_at":"2026-03-01T12:00:00Z","counts":{"pending":0}\n,"pending":['
    bomb = stream.compress(head)
    for _ in range(MAX_DECODED_BYTES // 2**20 + 1):
        bomb += stream.compress(b"\n" * 2**20)
    bomb += stream.flush()

    assert len(bomb) < 2**20
    with pytest.raises(InvalidMessage):
        decode_snapshot(bomb, HEADERS)
    with pytest.raises(InvalidMessage, match="more than"):
        decode(QueueSnapshot, bomb, HEADERS | {"content-encoding": "gzip"})


def test_a_long_line_of_a_bomb_is_refused() -> None:
    bomb = gzip.compress(b" " * (MAX_DECODED_BYTES + 1))

    with pytest.raises(InvalidMessage, match="more than"):
        decode_head(bomb, HEADERS)


def test_no_more_is_decompressed_for_the_head_than_a_head_may_have() -> None:
    bomb = gzip.compress(b" " * MAX_DECODED_BYTES)
    begin = bomb[: len(bomb) // 16]

    # Whoever went on would find that the body is truncated.
    with pytest.raises(InvalidMessage, match="more than"):
        decode_head(begin, HEADERS)


def test_a_head_of_the_largest_size_is_read_and_a_larger_one_is_refused(lines: list[bytes]) -> None:
    head, *rest = lines
    whole = head + b" " * (MAX_HEAD_BYTES - len(head))
    read = [gzip.compress(b"\n".join((each, *rest))) for each in (whole, whole + b" ")]

    found = decode_head(read[0], HEADERS)

    assert found == decode_head(gzip.compress(b"\n".join(lines)), HEADERS)
    for decoded in (decode_head, decode_snapshot):
        with pytest.raises(InvalidMessage, match="head of a large queue has more than"):
            decoded(read[1], HEADERS)


def test_the_body_is_json() -> None:
    snapshot = large_snapshot(10, 10, 10)

    told = json.loads(gzip.decompress(encode_large(snapshot)[0]))

    assert [len(told[name]) for name in ("running", "nodes")] == [10, 10]
    assert told["counts"] == {"pending": 10, "running": 10, "nodes": 10}


def test_a_line_without_an_end_is_refused_as_fast_as_it_is_decompressed() -> None:
    body = zlib.compress(b"x" * (63 * 1024 * 1024), 1, wbits=31)
    began = time.process_time()

    with pytest.raises(InvalidMessage):
        decode_head(body, {FORM: LARGE})

    # Copied for each piece, it takes a minute.
    assert time.process_time() - began < 10
