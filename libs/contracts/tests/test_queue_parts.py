"""Large queue snapshots in parts: nothing is lost, every part is bounded, and only a whole generation counts."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from clusterra_contracts.bus.envelope import decode, pack
from clusterra_contracts.queue import MAX_PARTS, NodeState, PendingJobs, QueueSnapshot, RunningJob
from clusterra_contracts.queue_parts import split as split_module
from clusterra_contracts.queue_parts.columns import expand_names, expand_times, names_of, times_of
from clusterra_contracts.queue_parts.join import InvalidPart, join
from clusterra_contracts.queue_parts.part import QueuePart
from clusterra_contracts.queue_parts.split import PART_BYTES, QueueTooLarge, Splitter, split
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from large_queue import large_snapshot
from pydantic import BaseModel

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
MAX_PAYLOAD = 1024 * 1024
"""Of a NATS server by default."""

texts = st.sampled_from(["", "a", "gpu", 'é"\n\U0001f600', "x" * 300])
moments = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - timezones
job_ids = st.one_of(
    st.integers(1, 40).map(str), st.builds("{}_{}".format, st.integers(1, 3), st.integers(0, 9_999_999))
)
node_names = st.one_of(
    st.builds("{}{}".format, st.sampled_from(["w", "w0", "x-7", "9"]), st.integers(0, 12)), st.text(max_size=4)
)
counts = st.dictionaries(st.sampled_from(["gpu", "gpu:l4"]), st.integers(0, 3), max_size=2)
ranges = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=7).map(tuple)


@st.composite
def pending_groups(draw: st.DrawFn) -> PendingJobs:
    ids = tuple(draw(st.lists(job_ids, max_size=9, unique=True)))
    return PendingJobs(
        job_ids=ids,
        count=draw(st.integers(0, 5)),
        array_tasks={job_id: draw(ranges) for job_id in ids if draw(st.booleans())},
        cpus=draw(st.integers(1, 3)),
        features=draw(texts),
        excluded_nodes=tuple(draw(st.lists(node_names, max_size=2))),
        partition="main",
        uid=draw(st.integers(0, 2)),
        reason=draw(texts),
        begins_at=draw(st.none() | moments),
        first_submitted_at=draw(moments),
    )


@st.composite
def running_jobs(draw: st.DrawFn, job_id: str) -> RunningJob:
    nodes = tuple(draw(st.lists(node_names, max_size=3)))
    started_at = draw(st.sampled_from([START, START + timedelta(seconds=1)]) | moments)
    by_node = {name: draw(counts) for name in nodes}
    equal = dict.fromkeys(nodes, draw(counts))
    return RunningJob(
        job_id=job_id,
        uid=draw(st.integers(0, 1)),
        user="ada",
        nodes=nodes,
        cpus=draw(st.integers(1, 2)),
        started_at=started_at,
        ends_by=draw(st.none() | st.just(started_at + timedelta(hours=1)) | moments),
        memory_mib=draw(st.none() | st.just(5)),
        gres=draw(st.sampled_from([{}, equal, by_node])),
        extra=draw(texts),
    )


@st.composite
def node_states(draw: st.DrawFn, name: str) -> NodeState:
    return NodeState(
        name=name,
        states=draw(st.sampled_from([("IDLE",), ("MIXED", "DRAIN")])),
        cpus=2,
        cpus_allocated=draw(st.integers(0, 1)),
        memory_mib=5,
        memory_allocated_mib=0,
        gres=draw(counts),
        reason=draw(texts),
        idle_since=draw(st.none() | moments),
        registered_at=draw(st.none() | st.just(START)),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> QueueSnapshot:
    """Snapshots as the proxy takes them: running jobs sorted by id, nodes by name."""
    ids = sorted(
        draw(st.sets(job_ids, max_size=8)), key=lambda each: [int(part) for part in f"{each}_0".split("_")[:2]]
    )
    names = sorted(draw(st.sets(node_names, max_size=8)))
    return QueueSnapshot(
        generation=draw(st.integers(1, 2**60)),
        taken_at=draw(moments),
        pending=draw(st.none() | st.lists(pending_groups(), max_size=5).map(tuple)),
        running=draw(st.none() | st.just(tuple(draw(running_jobs(each)) for each in ids))),
        nodes=draw(st.none() | st.just(tuple(draw(node_states(each)) for each in names))),
        unreadable_jobs=draw(st.integers(0, 2)),
    )


def received(parts: Sequence[bytes]) -> list[QueuePart]:
    """The parts after their way over the bus."""
    return [decode(QueuePart, *pack(QueuePart.schema_name, part)) for part in parts]


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(snapshots(), st.integers(0, 1), st.integers(1, 3), st.sampled_from([1, 300, PART_BYTES]))
def test_parts_lose_nothing(snapshot: QueueSnapshot, slot: int, values: int, part_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split_module, "CHUNK_VALUES", values)
        patch.setattr(split_module, "PART_BYTES", part_bytes)
        head, parts = split(snapshot, slot)

    assert head.parts is not None
    assert (head.parts.slot, head.parts.count) == (slot, len(parts))
    assert (head.pending, head.running, head.nodes) == (None, None, None)
    assert join(QueueSnapshot.model_validate_json(head.model_dump_json()), received(parts)) == snapshot


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(snapshots(), snapshots(), st.integers(1, 4))
def test_consecutive_snapshots_are_split_as_if_each_was_the_first(
    one: QueueSnapshot, other: QueueSnapshot, cut_at_every: int
) -> None:
    splitter = Splitter()
    mixed = other.model_copy(update={"running": (other.running or ())[1:] + (one.running or ())[:2]})
    mixed = mixed.model_copy(update={"running": tuple({job.job_id: job for job in mixed.running or ()}.values())})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split_module, "CUT_AT_EVERY", cut_at_every)
        for snapshot in (one, other, mixed, one, one):
            assert splitter.split(snapshot, 0) == split(snapshot, 0)


def test_an_unchanged_record_is_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    splitter, snapshot = Splitter(), large_snapshot(1000, 20_000, 5000)
    splitter.split(snapshot, 0)
    written: list[object] = []
    write = split_module._json

    def counted(chunk: BaseModel) -> bytes:
        written.append(chunk)
        return write(chunk)

    monkeypatch.setattr(split_module, "_json", counted)
    running = (snapshot.running or ())[:7000] + (snapshot.running or ())[7001:]

    splitter.split(snapshot.model_copy(update={"running": running}), 1)

    assert 1 <= len(written) <= 3


@given(st.lists(node_names, max_size=30))
def test_columns_of_names_lose_nothing(names: list[str]) -> None:
    assert list(expand_names(names_of(names))) == names


@given(st.lists(moments, max_size=30))
def test_columns_of_times_lose_nothing(times: list[datetime]) -> None:
    assert list(expand_times(times_of(times))) == times


def test_consecutive_names_are_counted() -> None:
    assert names_of(["w08", "w09", "w10", "x", "w99", "w100", "w101"]) == (("w08", 3), "x", ("w99", 3))
    assert names_of(["7_1", "7_2", "8"]) == (("7_1", 2), "8")


@pytest.mark.parametrize(("pending", "running", "nodes"), [(50_000, 20_000, 5_000), (100_000, 60_000, 5_000)])
def test_a_large_queue_fits_into_a_few_bounded_parts(pending: int, running: int, nodes: int) -> None:
    snapshot = large_snapshot(pending, running, nodes)

    head, parts = split(snapshot, 0)

    sizes = [len(pack(QueuePart.schema_name, part)[0]) for part in parts]
    assert max(map(len, parts)) < PART_BYTES + 1000
    assert max(sizes) < MAX_PAYLOAD // 2
    assert len(parts) < 12
    assert join(head, received(parts)) == snapshot


def test_a_queue_without_any_equal_jobs_still_fits() -> None:
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
        for number in range(50_000)
    )

    _, parts = split(QueueSnapshot(generation=1, taken_at=START, pending=groups, running=(), nodes=()), 0)

    assert len(parts) < MAX_PARTS
    assert max(len(pack(QueuePart.schema_name, part)[0]) for part in parts) < MAX_PAYLOAD


def test_an_array_of_many_ranges_is_spread_over_parts() -> None:
    """Every second task of four million is cancelled."""
    tasks = tuple((number, number) for number in range(0, 400_000, 2))
    group = PendingJobs(
        job_ids=("7", "8"),
        count=len(tasks),
        array_tasks={"7": tasks},
        cpus=1,
        partition="main",
        uid=1,
        reason="None",
        first_submitted_at=START,
    )
    snapshot = QueueSnapshot(generation=1, taken_at=START, pending=(group,), running=(), nodes=())

    head, parts = split(snapshot, 0)

    assert max(map(len, parts)) < PART_BYTES + 1000
    assert join(head, received(parts)) == snapshot


def test_a_queue_of_too_many_parts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_module, "PART_BYTES", 100)

    with pytest.raises(QueueTooLarge, match="128 parts"):
        split(large_snapshot(1000, 1000, 200), 0)


class TestOnlyAWholeGenerationCounts:
    """Parts that are lost, swapped, doubled or of another generation make no snapshot."""

    @pytest.fixture(autouse=True)
    def small_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(split_module, "PART_BYTES", 2000)
        monkeypatch.setattr(split_module, "CHUNK_VALUES", 20)

    def test_a_lost_part(self) -> None:
        head, parts = split(large_snapshot(300, 100, 50), 0)
        assert len(parts) > 3

        for lost in range(len(parts)):
            assert join(head, received([*parts[:lost], *parts[lost + 1 :]])) is None

    def test_a_doubled_or_swapped_part(self) -> None:
        head, parts = split(large_snapshot(300, 100, 50), 0)

        assert join(head, received([parts[0], *parts[:-1]])) is None
        assert join(head, received([parts[1], parts[0], *parts[2:]])) is None
        assert join(head, received([*parts, parts[-1]])) is None

    def test_parts_of_two_generations(self) -> None:
        head, parts = split(large_snapshot(60, 30, 20, generation=1), 0)
        newer, newer_parts = split(large_snapshot(60, 30, 20, generation=2), 0)
        assert len(parts) == len(newer_parts)

        for choice in product([0, 1], repeat=len(parts)):
            mixed = received(
                [pair[one] for one, pair in zip(choice, zip(parts, newer_parts, strict=True), strict=True)]
            )
            assert (join(head, mixed) is not None) == (sum(choice) == 0)
            assert (join(newer, mixed) is not None) == (sum(choice) == len(parts))

    def test_parts_of_another_reading_with_the_same_generation(self) -> None:
        """Two leaders may overlap for a moment."""
        head, parts = split(large_snapshot(60, 30, 20), 0)
        other = large_snapshot(60, 30, 20).model_copy(update={"taken_at": START + timedelta(seconds=1)})

        assert join(head, received([*split(other, 0)[1][:1], *parts[1:]])) is None


@pytest.mark.parametrize(
    "part",
    [
        b'{"pending":[{"shared":{"job_ids":[],"count":1,"cpus":1,"partition":"p","uid":1,"reason":"",'
        b'"first_submitted_at":"2026-03-01T12:00:00Z"},"job_ids":["no id"]}]',
        b'{"running":[{"uid":1,"user":"a","cpus":1,"job_ids":["1","2"],"started_at":[5,6],"nodes":["w1"]}]',
        b'{"running":[{"uid":1,"user":"a","cpus":1,"job_ids":["1"],"started_at":[5,6],"nodes":["w1"]}]',
        b'{"running":[{"uid":1,"user":"a","cpus":1,"job_ids":["1"],"started_at":[999999999999999999],"nodes":["w1"]}]',
        b'{"running":[{"uid":1,"user":"a","cpus":1,"job_ids":[["x",3]],"started_at":[5,6,7],"nodes":[["w1",3]]}]',
        b'{"running":[{"uid":1,"user":"a","cpus":1,"job_ids":[["1",100000],["1",100000]],"started_at":[],"nodes":[]}]',
        b'{"nodes":[{"shared":{"name":"","states":[],"cpus":1,"cpus_allocated":0,"memory_mib":1,'
        b'"memory_allocated_mib":0},"names":[["w1",2]],"idle_since":[5]}]',
    ],
    ids=["job id", "node count", "times", "overflow", "uncounted name", "too many", "idle times"],
)
def test_an_invalid_part_is_an_invalid_message(part: bytes) -> None:
    head, _ = split(QueueSnapshot(generation=1, taken_at=START, pending=(), running=(), nodes=()), 0)
    body = part + b',"generation":1,"taken_at":"2026-03-01T12:00:00Z","number":0}'

    with pytest.raises(InvalidPart):
        join(head, [decode(QueuePart, body)])
