"""The whole way of a job with workers that are pods of a real node of Kubernetes."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from clusterra_contracts.events import MisclassifiedFact
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.demo.observer import Observer
from clusterra_lab.kube.binaries import BINARIES, can_have_binaries
from clusterra_lab.kube.edge import NAMESPACE, KubernetesEdge
from clusterra_lab.kube.kubernetes import KubectlFailed
from clusterra_lab.kube.node import NodeNotPossible
from clusterra_lab.machine.debian_root import RootNotBuilt
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack, stack

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a real node mounts, and makes cgroups: it needs root"),
    pytest.mark.skipif(
        not can_have_binaries(BINARIES),
        reason="the programs of Kubernetes are not in KUBEBUILDER_ASSETS, and there is no 'go' to build them",
    ),
]

HEAD = "#!/bin/sh\necho $(hostname) $(id -u) $TMPDIR $(nproc)\n"
ONE_CPU = {"cpus_per_task": 1, "memory_per_cpu": 1024}


@pytest.fixture(scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    policy = ScalingPolicy(idle_seconds=2.0, ghost_seconds=5.0)
    try:
        async with stack(tmp_path_factory.mktemp("lab"), policy=policy, substrate="kubernetes") as running:
            yield running
    except (NodeNotPossible, RootNotBuilt) as problem:
        pytest.skip(str(problem))


async def kubectl(lab: Stack, *argv: str) -> str:
    """As the administrator of the customer's Kubernetes."""
    assert isinstance(lab.substrate, KubernetesEdge)
    return await lab.substrate.plane.kubectl(*argv, f"--namespace={NAMESPACE}")


async def pods(lab: Stack) -> dict[str, Any]:
    """By name."""
    return {
        pod["metadata"]["name"]: pod for pod in json.loads(await kubectl(lab, "get", "pods", "--output=json"))["items"]
    }


async def state(observer: Observer, job_id: str, wanted: str) -> None:
    await until(lambda: observer.states.get(job_id) == wanted, seconds=120, what=f"job {job_id} to be {wanted}")


async def no_workers(lab: Stack) -> None:
    async def gone() -> bool:
        nodes = (await lab.slurm.run("sinfo", "--noheader", "--Node")).stdout.strip()
        return not nodes and not await pods(lab)

    await until(gone, seconds=120, every=0.5, what="all workers and their nodes to go")


async def test_a_job_runs_in_a_pod_that_did_not_exist_and_goes(lab: Stack, ada: User, observer: Observer) -> None:
    """As its user, in a scratch folder of its own, in the pod of k8s/edge: read-only, few rights."""
    assert not await pods(lab)
    body = "mktemp; touch /usr/x 2>&1; cat /etc/slurm/slurm.key 2>&1; exit 0\n"
    job = await ada.submit(HEAD + body, ONE_CPU)
    await state(observer, job.job_id, "COMPLETED")
    first, scratch, unwritable, unreadable, *_ = (await ada.output(job.job_id)).splitlines()
    node, uid, folder, _ = first.split()
    assert (uid, folder) == (str(ada.profile.uid), f"/tmp/job-{job.job_id}")
    assert Path(scratch).is_relative_to(folder)
    assert "Read-only file system" in unwritable
    assert "Permission denied" in unreadable
    assert node.startswith("slurmd-compute-xs-"), "Slurm's node, its pod and the host inside have one name"
    await no_workers(lab)
    events = await ada.history("worker.*")
    assert [event.data.kind for event in events if event.subject == node] == ["worker.started", "worker.stopped"]


async def test_nobody_ends_a_busy_worker_and_who_insists_lets_its_job_end(
    lab: Stack, ada: User, observer: Observer
) -> None:
    go = "let-go"
    waiting = f"until [ -e {lab.slurm.shared_path}/{go} ]; do sleep 0.2; done\necho whole\n"
    job = await ada.submit(HEAD + waiting, ONE_CPU)
    await state(observer, job.job_id, "RUNNING")
    (pod,) = await pods(lab)
    with pytest.raises(KubectlFailed, match="this worker may run jobs, and was not marked for deletion"):
        await kubectl(lab, "delete", "pod", pod)
    assert isinstance(lab.substrate, KubernetesEdge)
    node = lab.substrate.node.name
    with pytest.raises(KubectlFailed, match="would violate the pod's disruption budget"):
        await kubectl(lab, "drain", node, "--force", "--delete-emptydir-data", "--timeout=1s")
    await kubectl(lab, "uncordon", node)
    await kubectl(lab, "annotate", "pod", pod, "clusterra.io/deletable=true")
    await kubectl(lab, "delete", "pod", pod, "--wait=false")
    (lab.slurm.shared_dir / go).touch()
    await state(observer, job.job_id, "COMPLETED")
    assert (await ada.output(job.job_id)).splitlines()[-1] == "whole", "its preStop hook waited for the job"
    await no_workers(lab)


async def misclassified(user: User, shape: str) -> MisclassifiedFact:
    """What is told of a shape, once it is."""

    async def told() -> MisclassifiedFact | None:
        facts = [event.data for event in await user.history("node.*")]
        return next((fact for fact in facts if isinstance(fact, MisclassifiedFact) and fact.shape == shape), None)

    return await until(told, seconds=120, every=0.5, what=f"node.misclassified of {shape}")


async def test_a_machine_that_is_not_what_its_shape_promises_is_told_and_runs_nothing(
    lab: Stack, ada: User, observer: Observer
) -> None:
    """compute-xlarge has 32 CPUs, and this machine has not."""
    deployment = "deployment/slurmd-compute-xlarge"
    await kubectl(lab, "set", "env", deployment, "CLUSTERRA_CONFIG_OVERRIDES=no")
    job = await ada.submit(f"#!/bin/sh\n#SBATCH --constraint=compute-xlarge\n{HEAD}", ONE_CPU)

    fact = await misclassified(ada, "compute-xlarge")
    assert isinstance(lab.substrate, KubernetesEdge)
    assert (fact.node, fact.expected.cpus) == (lab.substrate.node.name, 32)
    assert fact.actual.cpus == len(os.sched_getaffinity(0))
    assert observer.states.get(job.job_id) in (None, "PENDING")


async def test_a_machine_without_its_gpus_is_told_and_runs_nothing(lab: Stack, ada: User, observer: Observer) -> None:
    """l4-small is the cheapest with a GPU, and this machine has none."""
    job = await ada.submit(f"#!/bin/sh\n#SBATCH --gres=gpu:1\n{HEAD}", ONE_CPU)
    fact = await misclassified(ada, "l4-small")
    assert (fact.expected.gpus, fact.expected.gpu_model) == (1, "l4")
    assert (fact.actual.gpus, fact.actual.gpu_model) == (0, "")
    assert observer.states.get(job.job_id) in (None, "PENDING")
