"""The lists of snapshots that follow one another equal those made from scratch, and repeat no work."""

from collections.abc import Callable
from datetime import datetime

import pytest
from clusterra_proxy.slurmrestd.records import JobRecord, NodeRecord
from clusterra_proxy.watch import snapshot_lists
from clusterra_proxy.watch.snapshot import node_states, pending_jobs, running_jobs
from clusterra_proxy.watch.snapshot_lists import SnapshotLists
from hypothesis import given
from hypothesis import strategies as st
from job_records import at, job, node, task, waiting_array

times = st.sampled_from([at(0), at(30), at(90)])
plain = st.builds(
    job,
    st.integers(1, 6),
    st.sampled_from(["PENDING", "PENDING", "RUNNING", "COMPLETED"]),
    cpus=st.integers(1, 2),
    priority=st.integers(0, 2),
    eligible_time=st.sampled_from([None, at(60)]),
)
arrays = st.builds(waiting_array, st.just(20), st.sampled_from(["0-3", "1-3"]), array_max_tasks=st.just(2))
tasks = st.builds(task, st.integers(21, 23), st.just(20), st.integers(0, 2), st.sampled_from(["RUNNING", "COMPLETED"]))
queues = st.lists(st.one_of(plain, plain, arrays, tasks), max_size=9, unique_by=lambda record: record.job_id)
fleets = st.lists(
    st.builds(node, st.sampled_from(["w1", "w2", "w3"]), st.sampled_from(["IDLE", "DRAIN"])),
    max_size=3,
    unique_by=lambda record: record.name,
)


def waiting_tasks(record: JobRecord) -> tuple[int, ...]:
    return (1, 2, 3) if record.is_waiting_array else ()


def owner(record: JobRecord) -> str:
    return f"user{record.user_id}"


@given(st.lists(st.tuples(queues, fleets, st.sets(st.integers(0, 8)), times), min_size=2, max_size=5))
def test_lists_equal_those_made_from_scratch(
    changes: list[tuple[list[JobRecord], list[NodeRecord], set[int], datetime]],
) -> None:
    lists = SnapshotLists()
    before: list[JobRecord] = []
    for queue, fleet, kept, moment in changes:
        # Some records stay the same objects.
        stay = {record.job_id: record for number, record in enumerate(before) if number in kept}
        records = [stay.get(record.job_id, record) for record in queue]

        pending, running = lists.jobs(records, waiting_tasks, owner, moment)

        assert pending == pending_jobs(records, waiting_tasks, moment)
        assert running == running_jobs(records, owner)
        assert lists.nodes(fleet) == node_states(fleet)
        before = records


def test_a_changed_owner_is_seen() -> None:
    lists = SnapshotLists()
    records = [job(1, "RUNNING")]
    lists.jobs(records, waiting_tasks, owner, at(0))

    _, (running,) = lists.jobs(records, waiting_tasks, lambda record: "grace", at(1))

    assert running.user == "grace"


def test_unchanged_records_cost_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = SnapshotLists()
    records = [*(job(number, cpus=1 + number % 3) for number in range(1, 30)), job(50, "RUNNING")]
    nodes = [node("w1"), node("w2")]
    first = (lists.jobs(records, waiting_tasks, owner, at(0)), lists.nodes(nodes))
    made: list[str] = []

    def counted(name: str) -> Callable[..., object]:
        work: Callable[..., object] = getattr(snapshot_lists, name)

        def wrapper(*given: object) -> object:
            made.append(name)
            return work(*given)

        return wrapper

    for name in ("request_key", "pending_group", "running_job", "node_state"):
        monkeypatch.setattr(snapshot_lists, name, counted(name))

    second = (lists.jobs(records, waiting_tasks, owner, at(1)), lists.nodes(nodes))
    assert second == first
    assert made == []

    records[0] = job(1, cpus=3)
    lists.jobs(records, waiting_tasks, owner, at(2))
    # Its old group and its new one.
    assert sorted(made) == ["pending_group", "pending_group", "request_key"]
