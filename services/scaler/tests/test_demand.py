import pytest
from clusterra_scaler.planner.demand import Need, demand_of, startable, waits_for_nodes
from fleet_examples import group


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
def test_jobs_that_new_nodes_would_start(reason: str) -> None:
    assert waits_for_nodes(group(reason=reason))
    assert not waits_for_nodes(group(reason=reason, held=True))


@pytest.mark.parametrize(
    "reason",
    [
        "Dependency",
        "DependencyNeverSatisfied",
        "BeginTime",
        "JobHeldUser",
        "JobHeldAdmin",
        "JobArrayTaskLimit",
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
def test_jobs_that_wait_for_something_else(reason: str) -> None:
    assert not waits_for_nodes(group(reason=reason))


def test_a_job_that_slurm_holds_for_want_of_a_fitting_node_waits_for_one() -> None:
    assert waits_for_nodes(group(reason="BadConstraints", held=True))


def test_only_the_cluster_s_own_partition_counts() -> None:
    groups = [group("1"), group("2", partition="debug"), group("3", partition="debug,main")]
    assert [demand.job_ids for demand in startable(groups, "main")] == [("1",), ("3",)]


@pytest.mark.parametrize(
    ("asked", "need"),
    [
        ({"cpus": 4, "memory_per_node_mib": 9000}, Need(4, 9000)),
        ({"cpus": 4, "memory_per_node_mib": None, "memory_per_cpu_mib": 100}, Need(4, 400)),
        ({"cpus": 4, "memory_per_node_mib": None}, Need(4, 8192)),
        ({"cpus": 7, "nodes": 2, "memory_per_node_mib": None, "memory_per_cpu_mib": 100}, Need(4, 400)),
        ({"cpus": 7, "nodes": 2, "memory_per_node_mib": 50}, Need(4, 50)),
        ({"cpus": 2, "memory_per_node_mib": 0}, Need(2, 4096, exclusive=True)),
        (
            {"exclusive": True, "features": "compute", "gres": "gres/gpu:1"},
            Need(1, 2048, "compute", "gres/gpu:1", True),
        ),
    ],
)
def test_need_of_one_node(asked: dict[str, object], need: Need) -> None:
    assert demand_of(group(**asked)).need == need
