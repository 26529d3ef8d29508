"""Why workers do not start, for every state of a pod and with any booting machines."""

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from clusterra_edge_agent.kubernetes.client.resources import SHAPE_LABEL, Deployment, Pod
from clusterra_edge_agent.kubernetes.machines.resources import NodeClaim
from clusterra_edge_agent.kubernetes.machines.stuck import stuck
from hypothesis import given
from hypothesis import strategies as st
from kube_machines import INITIALIZED, LAUNCHED, NO_CAPACITY, claim_labels

SHAPE = "general-xs"
BIRTH = datetime(2026, 1, 1, tzinfo=UTC)
MISCLASSIFIED = (
    '{"misclassified": {"expected": {"cpus": 4, "memory_mib": 900}, "actual": {"cpus": 2, "memory_mib": 800}}}'
)

SERVES: dict[str, Any] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
BOOTS: dict[str, Any] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}


def unscheduled(reason: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "0/3 nodes"}
    return {"phase": "Pending", "conditions": [condition]}


def waiting(reason: str, last: dict[str, Any] | None = None) -> dict[str, Any]:
    container = {"state": {"waiting": {"reason": reason, "message": "of it"}}, "lastState": last or {}}
    return {"phase": "Pending", "containerStatuses": [container]}


def ended(code: int, message: str) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "message": message}}


CAUSES = {
    "insufficient_capacity": [unscheduled("Unschedulable")],
    "image_pull": [waiting("ErrImagePull"), waiting("ImagePullBackOff"), waiting("ErrImageNeverPull")],
    "misclassified": [waiting("CrashLoopBackOff", ended(78, MISCLASSIFIED))],
    "other": [
        waiting("CrashLoopBackOff", ended(1, "")),
        waiting("CrashLoopBackOff", ended(1, MISCLASSIFIED)),
        waiting("CrashLoopBackOff", ended(78, "no JSON")),
        waiting("CreateContainerConfigError"),
        unscheduled("SchedulingGated"),
    ],
    "": [SERVES, BOOTS, waiting("ContainerCreating"), {"phase": "Failed", "reason": "Evicted"}],
}
"""Statuses of pods, by the cause that blocks them."""


def pod(name: str, status: dict[str, Any]) -> Pod:
    return Pod.model_validate({"metadata": {"name": name, "uid": name}, "status": status})


def deployment(selector: dict[str, str] | None = None, **condition: str) -> Deployment:
    return Deployment.model_validate(
        {
            "metadata": {"name": f"slurmd-{SHAPE}", "labels": {SHAPE_LABEL: SHAPE}},
            "spec": {"replicas": 3, "template": {"spec": {"nodeSelector": selector or {}}}},
            "status": {"conditions": [condition] if condition else None},
        }
    )


def claim(*conditions: dict[str, str], family: str = "general", going: bool = False) -> NodeClaim:
    metadata = {"name": "claim", "uid": "claim", "labels": claim_labels(family), "creationTimestamp": BIRTH}
    if going:
        metadata["deletionTimestamp"] = BIRTH
    return NodeClaim.model_validate({"metadata": metadata, "status": {"conditions": list(conditions)}})


@given(st.lists(st.sampled_from([(cause, status) for cause, some in CAUSES.items() for status in some]), max_size=12))
def test_each_worker_that_does_not_start_counts_once_for_its_cause(statuses: list[tuple[str, dict[str, Any]]]) -> None:
    pods = {f"p-{number}": pod(f"p-{number}", status) for number, (_, status) in enumerate(statuses)}
    lines = list(stuck({SHAPE: pods}, [deployment()], None))
    assert {line.cause: line.workers for line in lines} == Counter(cause for cause, _ in statuses if cause)
    assert all(line.shape == SHAPE and line.message for line in lines)
    assert len({line.cause for line in lines}) == len(lines)


@given(
    waiting=st.integers(0, 6),
    bought=st.integers(0, 6),
    serving=st.integers(0, 2),
    unavailable=st.integers(0, 2),
    going=st.integers(0, 2),
    others=st.integers(0, 2),
)
def test_a_worker_with_a_bought_machine_is_not_stuck(
    waiting: int, bought: int, serving: int, unavailable: int, going: int, others: int
) -> None:
    pods = {f"p-{number}": pod(f"p-{number}", unscheduled("Unschedulable")) for number in range(waiting)}
    claims = [
        *[claim(LAUNCHED)] * bought,
        *[claim(LAUNCHED, INITIALIZED)] * serving,
        *[claim(NO_CAPACITY)] * unavailable,
        *[claim(LAUNCHED, going=True)] * going,
        *[claim(LAUNCHED, family="memory")] * others,
    ]
    selector = {"clusterra.io/family": "general", "karpenter.k8s.aws/instance-cpu": "2", "kubernetes.io/arch": "arm64"}

    lines = list(stuck({SHAPE: pods}, [deployment(selector)], claims))

    assert [line.workers for line in lines] == [waiting - bought] * (waiting > bought)

    for line in lines:
        assert line.cause == "insufficient_capacity"
        assert line.message == (
            "InsufficientCapacity: no m7g.large in eu-west-1a" if unavailable else "Unschedulable: 0/3 nodes"
        )


def test_a_machine_of_another_size_does_not_count() -> None:
    pods = {"p": pod("p", unscheduled("Unschedulable"))}
    selector = {"karpenter.k8s.aws/instance-cpu": "16"}
    assert [line.workers for line in stuck({SHAPE: pods}, [deployment(selector)], [claim(LAUNCHED)])] == [1]


def test_pods_that_cannot_be_created_are_reported() -> None:
    quota = deployment(type="ReplicaFailure", status="True", reason="FailedCreate", message="exceeded quota: pods")
    (line,) = stuck({}, [quota], ())
    assert (line.shape, line.cause, line.workers) == (SHAPE, "quota", 0)
    assert line.message == "FailedCreate: exceeded quota: pods"

    policy = deployment(type="ReplicaFailure", status="True", reason="FailedCreate", message="denied by policy")
    assert [line.cause for line in stuck({}, [policy], ())] == ["other"]

    over = deployment(type="ReplicaFailure", status="False", reason="FailedCreate", message="exceeded quota: pods")
    assert list(stuck({}, [over], ())) == []


def test_a_misclassification_names_the_machines_resources() -> None:
    misclassified = pod("p", waiting("CrashLoopBackOff", ended(78, MISCLASSIFIED + "\n")))
    (line,) = stuck({SHAPE: {"p": misclassified}}, [], ())
    assert (
        line.message == "Misclassified: the machine has 2 CPUs and 800 MiB, but the shape promises 4 CPUs and 900 MiB"
    )


@pytest.mark.parametrize(
    ("actual", "said"),
    [({"gpus": 1, "gpu_model": "NVIDIA L40S"}, "1 GPUs (NVIDIA L40S)"), ({"gpus": 0, "gpu_model": ""}, "0 GPUs")],
)
def test_a_misclassification_names_the_machines_gpus(actual: dict[str, object], said: str) -> None:
    size = {"cpus": 4, "memory_mib": 900}
    expected = {**size, "gpus": 1, "gpu_model": "l4"}
    message = json.dumps({"misclassified": {"expected": expected, "actual": size | actual}})
    misclassified = pod("p", waiting("CrashLoopBackOff", ended(78, message)))

    (line,) = stuck({SHAPE: {"p": misclassified}}, [], ())

    assert line.cause == "misclassified"
    assert line.message.endswith(
        f"has 4 CPUs, 900 MiB and {said}, but the shape promises 4 CPUs, 900 MiB and 1 GPUs (l4)"
    )
