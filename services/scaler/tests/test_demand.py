"""Which pending jobs count as demand, and what each of them needs of its nodes."""

from pathlib import Path
from typing import Any

import pytest
from clusterra_contracts.demand import Fits, Need, Part
from clusterra_contracts.gres import Gres
from clusterra_scaler.planner.requests.demand import demand_of, startable, unknown_reasons, waits_for_nodes
from fleet_examples import START, at, group
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    "reason",
    [
        "None",
        "",
        "Resources",
        "Priority",
        "PartitionConfig",
        "ReqNodeNotAvail",
        "ReqNodeNotAvail, UnavailableNodes:general-small-1",
        "ReqNodeNotAvail,_UnavailableNodes:",
        "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions",
        "Nodes required for job are DOWN, DRAINED or reserved",
        "NodeDown",
    ],
)
def test_a_job_with_such_a_reason_waits_for_nodes_unless_it_is_held(reason: str) -> None:
    assert waits_for_nodes(group(reason=reason), START)
    assert not waits_for_nodes(group(reason=reason, held=True), START)


@pytest.mark.parametrize(
    "reason",
    [
        "Dependency",
        "DependencyNeverSatisfied",
        "BeginTime",
        "JobHeldUser",
        "JobHeldAdmin",
        "Licenses",
        "Reservation",
        "QOSMaxCpuPerUserLimit",
        "AssocGrpCpuLimit",
        "PartitionDown",
        "PartitionInactive",
        "PartitionTimeLimit",
        "NonZeroExitCode",
        "JobLaunchFailure",
        "InvalidAccount",
    ],
)
def test_a_job_with_such_a_reason_does_not_wait_for_nodes(reason: str) -> None:
    assert not waits_for_nodes(group(reason=reason), START)


def test_a_job_that_slurm_holds_because_no_node_fits_waits_for_nodes() -> None:
    assert waits_for_nodes(group(reason="BadConstraints", held=True), START)


def test_an_array_waits_for_nodes_as_soon_as_its_limit_has_room_whatever_slurm_last_said() -> None:
    full, room = (group("7", reason="JobArrayTaskLimit", count=count) for count in (0, 1))

    assert not waits_for_nodes(full, START)
    assert [demand.count for demand in startable([full, room], "main", START, fits_at_most())] == [1]


def test_the_reason_of_one_partition_does_not_block_a_job_with_several_partitions() -> None:
    assert waits_for_nodes(group(partition="main,debug", reason="PartitionNodeLimit"), START)
    assert not waits_for_nodes(group(partition="main,debug", reason="PartitionNodeLimit", held=True), START)
    assert not waits_for_nodes(group(partition="main", reason="PartitionNodeLimit"), START)


def test_only_jobs_of_the_cluster_s_partition_are_demand() -> None:
    groups = [group("1"), group("2", partition="debug"), group("3", partition="debug,main")]
    assert [demand.job_ids for demand in startable(groups, "main", START, fits_at_most())] == [("1",), ("3",)]


@pytest.mark.parametrize(
    "asked",
    [
        {"dependent": True},
        {"reservation": "maintenance"},
        {"begins_at": at(1)},
        {"count": 0},
        {"reason": "NoReasonOfSlurm"},
    ],
)
def test_a_blocked_job_is_no_demand_whatever_its_reason(asked: dict[str, Any]) -> None:
    assert not startable([group(**asked)], "main", START, fits_at_most())


def test_a_job_is_demand_from_its_begin_time_on() -> None:
    assert startable([group(begins_at=at(1))], "main", at(1), fits_at_most())


def test_every_reason_of_slurm_is_known() -> None:
    reasons = (Path(__file__).parent / "slurm_reasons.txt").read_text().split()
    assert len(reasons) == 216

    waiting_for_nodes = {reason for reason in reasons if waits_for_nodes(group(reason=reason), START)}

    assert not unknown_reasons([group(reason=reason) for reason in reasons])
    assert waiting_for_nodes == {
        *("None", "Priority", "Resources", "ReqNodeNotAvail", "PartitionConfig", "NodeDown", "BadConstraints"),
        *("SchedDefer", "Constraints", "JobArrayTaskLimit"),
    }


def test_unknown_reasons_are_reported_once_each() -> None:
    groups = [group(reason="New"), group(reason="Resources"), group(reason="Newer"), group(reason="New")]
    assert unknown_reasons(groups) == ("New", "Newer")


def fits_at_most(cpus: int = 1000) -> Fits:
    return lambda need: need.cpus <= cpus


@pytest.mark.parametrize(
    ("asked", "need"),
    [
        ({"cpus": 4, "memory_per_node_mib": 9000}, Need(4, 9000)),
        ({"cpus": 4, "memory_per_node_mib": None, "memory_per_cpu_mib": 100}, Need(4, 400)),
        ({"cpus": 4, "memory_per_node_mib": None}, Need(4, 8192)),
        ({"cpus": 7, "nodes": 2, "memory_per_node_mib": None, "memory_per_cpu_mib": 100}, Need(4, 400)),
        ({"cpus": 7, "nodes": 2, "memory_per_node_mib": 50}, Need(4, 50)),
        ({"cpus": 14, "cpus_per_task": 2, "nodes": 2}, Need(8, 2048)),
        ({"cpus": 2, "cpus_per_node": 6}, Need(6, 2048)),
        ({"cpus": 2, "memory_per_node_mib": 0}, Need(2, 4096, exclusive=True)),
        ({"exclusive": True, "features": "compute"}, Need(1, 2048, "compute", exclusive=True)),
        ({"exclusive_user": True}, Need(1, 2048, exclusive_uid=20001)),
        (
            {"gres": "node/gpu:h100=2,task/shard=3", "tasks": 2},
            Need(1, 2048, gres=(Gres("gpu:h100", 2), Gres("shard", 6))),
        ),
        (
            {"gres": "job/gpu=5", "nodes": 2, "memory_per_node_mib": None, "memory_per_gpu_mib": 1000},
            Need(1, 3000, gres=(Gres("gpu", 3),)),
        ),
        ({"gres": "gres/gpu:1"}, Need(1, 0, unreadable="the generic resources cannot be parsed: 'gres/gpu:1'")),
        ({"excluded_nodes": ("w1", "w2")}, Need(1, 2048, excluded_nodes=frozenset({"w1", "w2"}))),
        ({"required_nodes": ("w1",)}, Need(1, 2048, node="w1")),
    ],
)
def test_the_requirements_on_one_node(asked: dict[str, Any], need: Need) -> None:
    (part, *_) = demand_of([group(**asked)], fits_at_most()).parts
    assert part.need == need


def test_a_job_runs_on_the_fewest_nodes_that_can_be_bought() -> None:
    tasks = {"cpus": 40, "tasks": 40, "max_nodes": 40, "memory_per_node_mib": None, "memory_per_cpu_mib": 100}

    for limit, nodes, cpus in ((64, 1, 40), (39, 2, 20), (16, 3, 14), (1, 40, 1)):
        assert demand_of([group(**tasks)], fits_at_most(limit)).parts == (Part(Need(cpus, 100 * cpus), nodes),)

    assert demand_of([group(**tasks | {"nodes": 4})], fits_at_most(64)).nodes == 4
    assert demand_of([group(**tasks | {"max_nodes": 2})], fits_at_most(16)).nodes == 1


@given(st.integers(1, 60), st.integers(1, 4), st.integers(1, 12), st.integers(0, 12), st.integers(1, 20))
def test_all_tasks_fit_and_fewer_nodes_would_not_do(
    tasks: int, cpus_per_task: int, min_nodes: int, more: int, limit: int
) -> None:
    asked = group(
        cpus=tasks * cpus_per_task,
        cpus_per_task=cpus_per_task,
        tasks=tasks,
        nodes=min_nodes,
        max_nodes=min_nodes + more,
    )

    (part,) = demand_of([asked], fits_at_most(limit)).parts

    assert min_nodes <= part.nodes <= min_nodes + more
    assert part.need.cpus // cpus_per_task * part.nodes >= tasks
    if part.need.cpus <= limit:
        for fewer in range(min_nodes, part.nodes):
            assert -(-tasks // fewer) * cpus_per_task > limit
    else:
        assert part.nodes == min_nodes
        assert -(-tasks // (min_nodes + more)) * cpus_per_task > limit


def test_counted_and_named_nodes_are_parts_of_one_demand() -> None:
    asked = group(cpus=3, nodes=3, features="[general*2&compute*1]", required_nodes=("w1",))

    demand = demand_of([asked], fits_at_most())

    assert demand.parts == (
        Part(Need(1, 2048, "general", node="w1"), 1),
        Part(Need(1, 2048, "general"), 1),
        Part(Need(1, 2048, "compute"), 1),
    )


def test_all_nodes_get_the_first_alternative_that_fits() -> None:
    asked = group(cpus=2, nodes=2, features="[general|compute]")
    assert demand_of([asked], fits_at_most()).parts == (Part(Need(1, 2048, "general"), 2),)
    assert demand_of([asked], lambda need: need.constraint == "compute").parts == (Part(Need(1, 2048, "compute"), 2),)


def test_each_component_needs_a_node_that_is_large_enough_for_any_other_one_with_the_same_gpus() -> None:
    small, wide = group("7", het_job_id="7", cpus=1), group("8", het_job_id="7", het_offset=1, cpus=8)
    with_gpu = group("9", het_job_id="7", het_offset=2, cpus=2, gres="node/gpu:l4=1")
    both = [small, wide]

    assert [part.need.cpus for part in demand_of(both, fits_at_most()).parts] == [8, 8]
    assert [part.need.cpus for part in demand_of([*both, with_gpu], fits_at_most()).parts] == [8, 8, 2]
    # No worker has so much: then each needs its own, and the order decides.
    assert [part.need.cpus for part in demand_of(both, lambda need: need.cpus < 8).parts] == [1, 8]


def test_the_components_of_a_heterogeneous_job_are_one_demand_or_none() -> None:
    second = group("8", het_job_id="7", het_offset=1, cpus=2, nodes=2)
    first, other = group("7", het_job_id="7", cpus=4), group("9", het_job_id="9")

    (demand, alone) = startable([second, other, first], "main", START, fits_at_most())

    assert (demand.job_ids, demand.count) == (("7", "8"), 1)
    assert demand.parts == (Part(Need(4, 2048)), Part(Need(4, 2048), 2))
    assert alone.job_ids == ("9",)

    for waiting in ({"reason": "Dependency"}, {"partition": "debug"}, {"held": True}):
        assert not startable([first, second.model_copy(update=waiting)], "main", START, fits_at_most())
