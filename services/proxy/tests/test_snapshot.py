from datetime import datetime
from typing import Any

import pytest
from clusterra_contracts.queue import PendingJobs, QueueSnapshot
from clusterra_proxy.cluster.job_table import JobTable
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.watch.snapshot import node_states, pending_jobs, running_jobs, same_queue, urgent
from hypothesis import given
from hypothesis import strategies as st
from job_records import BEGIN, at, job, node, task, waiting_array

TABLE = JobTable()


def snapshot(*records: JobRecord, taken_at: datetime = BEGIN, generation: int = 1) -> QueueSnapshot:
    return QueueSnapshot(
        generation=generation,
        taken_at=taken_at,
        pending=pending_jobs(records, TABLE.waiting_tasks, BEGIN),
        running=running_jobs(records, lambda record: "alice"),
        nodes=(),
    )


def test_identical_jobs_are_one_group() -> None:
    (group,) = snapshot(job(2, submit=5), job(1, submit=3), job(10, submit=4)).pending or ()
    assert group.job_ids == ("1", "2", "10")
    assert group.count == 3
    assert group.first_submitted_at == at(3)


def test_groups_are_ordered_by_priority_and_then_by_age() -> None:
    records = (
        job(1, cpus=1, priority=5),
        job(2, cpus=2, priority=7),
        job(3, cpus=1, priority=9),
        job(4, cpus=3, priority=7),
        job(5, cpus=4),
    )
    groups = snapshot(*records).pending or ()

    assert [group.job_ids for group in groups] == [("3", "1"), ("2",), ("4",), ("5",)]


def test_jobs_with_different_requests_are_different_groups() -> None:
    different: tuple[dict[str, Any], ...] = (
        {"cpus": 2},
        {"node_count": 2},
        {"max_nodes": 2},
        {"tasks": 2},
        {"cpus_per_task": 2},
        {"minimum_cpus_per_node": 2},
        {"required_nodes": "w1"},
        {"excluded_nodes": "w1"},
        {"het_job_id": 7},
        {"resv_name": "maintenance"},
        {"dependency": "afterok:7(unfulfilled)"},
        {"eligible_time": at(60)},
        {"memory_per_cpu": 100},
        {"memory_per_node": 100},
        {"features": "memory"},
        {"tres_per_node": "gres/gpu:1"},
        {"shared": ("none",)},
        {"partition": "gpu"},
        {"user_id": 5002},
        {"extra": "rack=7"},
        {"state_reason": "Dependency"},
        {"priority": 0},
        {"time_limit": 10},
    )
    groups = snapshot(job(1), *(job(number, **fields) for number, fields in enumerate(different, start=2))).pending

    assert groups is not None
    assert [group.count for group in groups] == [1] * (1 + len(different))
    assert groups[-1].held
    assert groups[-2].time_limit_seconds == 600.0


def pending_group(**fields: Any) -> PendingJobs:
    (group,) = snapshot(job(1, **fields)).pending or ()
    return group


def test_unset_memory_is_none_and_zero_is_all_of_a_node() -> None:
    assert pending_group().memory_per_node_mib is None
    assert pending_group(memory_per_node=0).memory_per_node_mib == 0
    per_gpu = pending_group(memory_per_node=2048, memory_per_tres="gres/gpu:2048")
    assert (per_gpu.memory_per_node_mib, per_gpu.memory_per_gpu_mib) == (None, 2048)


@pytest.mark.parametrize(
    ("tres", "gres"),
    [
        ({"tres_per_node": "gres/gpu"}, "node/gpu=1"),
        ({"tres_per_node": "gres/gpu:2,gres/shard:4K"}, "node/gpu=2,node/shard=4096"),
        ({"tres_per_node": "gres:gpu:h100:2"}, "node/gpu:h100=2"),
        ({"tres_per_node": "gres/gpu:1g.10gb:2"}, "node/gpu:1g.10gb=2"),
        ({"tres_per_task": "cpu=2,gres/gpu:h100=1"}, "task/gpu:h100=1"),
        ({"tres_per_task": "cpu=2"}, ""),
        ({"tres_per_job": "gres/gpu:h100:1,gres/gpu:a100:2"}, "job/gpu:h100=1,job/gpu:a100=2"),
        ({"tres_per_socket": "gres/gpu:h100:2", "tres_req_str": "cpu=1,gres/gpu=4,gres/gpu:h100=4"}, "job/gpu:h100=4"),
        ({"tres_req_str": "cpu=4,mem=4G,node=1,gres/gpu=2"}, "job/gpu=2"),
    ],
)
def test_requested_generic_resources_have_one_notation(tres: dict[str, str], gres: str) -> None:
    assert pending_group(**tres).gres == gres


def test_the_minimum_nodes_are_those_requested_and_not_slurms_guess() -> None:
    assert pending_group(node_count=5, max_nodes=40, tres_req_str="cpu=40,mem=40G,node=1,billing=40").nodes == 1
    assert pending_group(node_count=3).nodes == 3


@pytest.mark.parametrize(
    ("shared", "exclusive", "exclusive_user"),
    [("none", True, False), ("topo", True, False), ("user", False, True), ("mcs", False, True)],
)
def test_exclusive_jobs(shared: str, exclusive: bool, exclusive_user: bool) -> None:
    group = pending_group(shared=(shared,))
    assert (group.exclusive, group.exclusive_user) == (exclusive, exclusive_user)


def test_a_past_begin_time_is_omitted() -> None:
    assert pending_group(eligible_time=at(1)).begins_at == at(1)
    assert pending_group(eligible_time=at(0)).begins_at is None


@pytest.mark.parametrize(
    ("records", "job_ids", "count", "array_tasks"),
    [
        ((waiting_array(1, "0-9"),), ("1",), 10, {"1": ((0, 9),)}),
        ((waiting_array(1, "0-2,4-9:2"), job(2)), ("1", "2"), 7, {"1": ((0, 2), (4, 4), (6, 6), (8, 8))}),
    ],
    ids=["a range", "ranges, steps and another job"],
)
def test_a_group_counts_each_task_of_an_array(
    records: tuple[JobRecord, ...], job_ids: tuple[str, ...], count: int, array_tasks: dict[str, Any]
) -> None:
    (group,) = snapshot(*records).pending or ()

    assert (group.job_ids, group.count, group.array_tasks) == (job_ids, count, array_tasks)


@pytest.mark.parametrize(("tasks", "count"), [("0-9%3", 3), ("8,9%3", 2)], ids=["throttled", "fewer tasks"])
def test_an_array_counts_the_tasks_that_may_run_concurrently(tasks: str, count: int) -> None:
    (group,) = snapshot(waiting_array(1, tasks, array_max_tasks=3)).pending or ()

    assert group.count == count


def test_running_tasks_count_towards_the_throttle() -> None:
    array = waiting_array(1, "2-9%3", array_max_tasks=3)
    (group,) = snapshot(array, task(2, 1, 0), task(3, 1, 1, "COMPLETED")).pending or ()
    assert group.count == 2
    (group,) = snapshot(array, *(task(2 + number, 1, number) for number in range(3))).pending or ()
    assert group.count == 0


def test_jobs_that_hold_nodes_are_running() -> None:
    observed = snapshot(
        job(1, "RUNNING", nodes="w[1-2]", start=7, time_limit=2),
        task(3, 2, 0),
        job(4, "COMPLETED+COMPLETING"),
        job(5, "COMPLETED"),
        job(6, "PENDING+COMPLETING", nodes="w1", start=5, restart_cnt=1),
    )

    assert observed.running is not None
    assert [each.job_id for each in observed.running] == ["1", "2_0", "4", "6"]

    first = observed.running[0]
    assert (first.nodes, first.started_at, first.ends_by, first.user) == (("w1", "w2"), at(7), at(127), "alice")
    assert observed.pending == ()


@pytest.mark.parametrize(
    ("tres", "memory_mib"),
    [
        ("cpu=4,mem=4G,node=2,billing=4", 4096),
        ("cpu=1,mem=1500M,node=1", 1500),
        ("cpu=1,mem=1.50T,node=1", 1572864),
        ("cpu=1,node=1,billing=1,gres/gpumem=4G", None),
        ("", None),
    ],
)
def test_allocated_memory_of_a_running_job(tres: str, memory_mib: int | None) -> None:
    (running,) = snapshot(job(1, "RUNNING", tres_alloc_str=tres)).running or ()
    assert running.memory_mib == memory_mib


@pytest.mark.parametrize(
    ("fields", "gres"),
    [
        ({}, {}),
        ({"gres_detail": ("gpu:h100:3(IDX:0,2-3)",), "nodes": "w1"}, {"w1": {"gpu:h100": 3}}),
        (
            {"gres_detail": ("gpu:h100:2(IDX:0-1)", "gpu:l4:1(IDX:2),shard:4K"), "nodes": "w[2,1]"},
            {"w2": {"gpu:h100": 2}, "w1": {"gpu:l4": 1, "shard": 4096}},
        ),
        ({"gres_detail": ("gpu:2(IDX:0-1)", ""), "nodes": "w[1-2]"}, {"w1": {"gpu": 2}}),
        # The job is completing.
        (
            {"tres_alloc_str": "cpu=3,mem=3G,node=2,billing=3,gres/gpu=3,gres/gpu:l4=3", "nodes": "w[1-2]"},
            {"w1": {"gpu": 2}, "w2": {"gpu": 2}},
        ),
    ],
)
def test_allocated_generic_resources_of_a_running_job(fields: dict[str, Any], gres: dict[str, Any]) -> None:
    (running,) = snapshot(job(1, "RUNNING", start=1, **fields)).running or ()
    assert running.gres == gres


def test_generic_resources_of_a_node() -> None:
    (gpus, none) = node_states(
        [
            node(
                "w1",
                gres="gpu:h100:4(S:0-1),gpu:l4:2(S:0,1),shard:8",
                gres_used="gpu:h100:3(IDX:0,2-3),gpu:l4:0(IDX:N/A)",
            ),
            node("w2"),
        ]
    )

    assert (gpus.gres, gpus.gres_allocated) == ({"gpu:h100": 4, "gpu:l4": 2, "shard": 8}, {"gpu:h100": 3})
    assert (none.gres, none.gres_allocated) == ({}, {})


def test_a_node_is_idle_since_its_last_clean_up() -> None:
    idle, busy, ending = node_states(
        [
            node("w3", "IDLE", "COMPLETING", last_busy=at(9)),
            node("w2", "MIXED", alloc_cpus=1, alloc_memory=100),
            node("w1", "IDLE", last_busy=at(9)),
        ]
    )

    assert (idle.name, idle.idle, idle.idle_since) == ("w1", True, at(9))
    assert (busy.name, busy.idle, busy.idle_since, busy.cpus_allocated) == ("w2", False, None, 1)
    assert (ending.name, ending.idle, ending.idle_since) == ("w3", False, None)


def test_snapshots_are_compared_by_content() -> None:
    assert same_queue(snapshot(job(1)), snapshot(job(1), taken_at=at(9), generation=7))
    assert not same_queue(snapshot(job(1)), snapshot(job(2)))
    assert not same_queue(None, snapshot())


def test_a_snapshot_is_urgent_while_jobs_are_pending_or_nodes_drain() -> None:
    assert not urgent(snapshot(job(1, "RUNNING")))
    assert urgent(snapshot(job(1)))
    draining = snapshot().model_copy(update={"nodes": node_states([node("w1", "IDLE", "DRAIN")])})
    assert urgent(draining)


@given(
    st.lists(
        st.builds(job, st.integers(1, 50), st.just("PENDING"), cpus=st.integers(1, 3)),
        unique_by=lambda record: record.job_id,
    )
)
def test_every_pending_job_is_in_exactly_one_group(records: list[JobRecord]) -> None:
    groups = pending_jobs(records, TABLE.waiting_tasks, BEGIN)
    assert sorted(job_id for group in groups for job_id in group.job_ids) == sorted(record.id for record in records)
    assert sum(group.count for group in groups) == len(records)
    requested = {record.id: record.cpus for record in records}
    assert all(requested[job_id] == group.cpus for group in groups for job_id in group.job_ids)
