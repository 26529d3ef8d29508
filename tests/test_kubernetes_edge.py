"""Jobs on the whole lab, with workers that are pods of a real Kubernetes node."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from clusterra_contracts.events import MisclassifiedFact
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.demo.observer import Observer
from clusterra_lab.kube.edge import NAMESPACE, KubernetesEdge
from clusterra_lab.kube.kubernetes import KubectlFailed
from clusterra_lab.kube.node import NodeNotPossible
from clusterra_lab.kube.programs.binaries import BINARIES, can_have_binaries
from clusterra_lab.machine.debian_root import RootNotBuilt
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import LabOptions, Stack, stack
from session_client import asked, entered, place, published, until_ready

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.skipif(os.geteuid() != 0, reason="a real node needs root for its mounts and cgroups"),
    pytest.mark.skipif(
        not can_have_binaries(BINARIES),
        reason="the Kubernetes programs are not in KUBEBUILDER_ASSETS, and there is no 'go' to build them",
    ),
]

HEAD = "#!/bin/sh\necho $(hostname) $(id -u) $TMPDIR $(nproc)\n"
ONE_CPU = {"cpus_per_task": 1, "memory_per_cpu": 1024}


@pytest.fixture(scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    policy = ScalingPolicy(idle_seconds=2.0, ghost_seconds=5.0)
    try:
        async with stack(tmp_path_factory.mktemp("lab"), LabOptions(policy, substrate="kubernetes")) as running:
            yield running
    except (NodeNotPossible, RootNotBuilt) as problem:
        pytest.skip(str(problem))


async def kubectl(lab: Stack, *argv: str) -> str:
    """Run kubectl as the administrator of the customer's Kubernetes."""
    assert isinstance(lab.substrate, KubernetesEdge)
    return await lab.substrate.plane.kubectl(*argv, f"--namespace={NAMESPACE}")


async def pods(lab: Stack) -> dict[str, Any]:
    """The pods by name."""
    return {
        pod["metadata"]["name"]: pod for pod in json.loads(await kubectl(lab, "get", "pods", "--output=json"))["items"]
    }


async def in_state(observer: Observer, job_id: str, wanted: str) -> None:
    await until(lambda: observer.states.get(job_id) == wanted, seconds=120, what=f"job {job_id} to be {wanted}")


async def no_workers(lab: Stack) -> None:
    async def gone() -> bool:
        nodes = (await lab.slurm.run("sinfo", "--noheader", "--Node")).stdout.strip()
        return not nodes and not await pods(lab)

    await until(gone, seconds=120, every=0.5, what="the end of all workers and nodes")


async def test_a_job_runs_in_a_new_pod_as_its_user_and_the_pod_is_removed(
    lab: Stack, ada: User, observer: Observer
) -> None:
    """The pod of k8s/edge has a read-only file system and few rights, and the job its own scratch folder."""
    assert not await pods(lab)

    body = "mktemp; touch /usr/x 2>&1; cat /etc/slurm/slurm.key 2>&1; exit 0\n"
    job = await ada.submit(HEAD + body, ONE_CPU)
    await in_state(observer, job.job_id, "COMPLETED")

    first, scratch, unwritable, unreadable, *_ = (await ada.output(job.job_id)).splitlines()
    node, uid, folder, _ = first.split()

    assert (uid, folder) == (str(ada.profile.uid), f"/tmp/job-{job.job_id}")
    assert Path(scratch).is_relative_to(folder)
    assert "Read-only file system" in unwritable
    assert "Permission denied" in unreadable
    assert node.startswith("slurmd-compute-xs-"), "Slurm's node, the pod and the host name in it are the same"

    await no_workers(lab)
    events = await ada.history("worker.*")

    kinds = [event.data.kind for event in events if event.subject == node]
    assert [kind for kind in kinds if kind != "worker.priced"] == ["worker.started", "worker.stopped"]


async def test_the_page_of_a_session_in_a_pod_opens_in_its_owners_browser(lab: Stack, ada: User) -> None:
    """The agent connects to the pod's address, and the server of the template wants the session's token."""
    definition = Path(__file__).with_name("session_page.yaml").read_text()
    async with published(ada, definition) as template_id:
        wanted = {"template_id": template_id, "params": {"listen": "0.0.0.0"}}
        job_id = (await asked(ada, "POST", place(ada), wanted, status=201))["job_id"]
        try:
            await until_ready(ada, job_id)
            async with ClientSession() as browser, ClientSession() as stranger:
                url = await entered(ada, browser, job_id)
                async with browser.get(url) as answer, stranger.get(url) as refused:
                    text = await answer.text()
                    assert (answer.status, refused.status) == (200, 404), text
        finally:
            await asked(ada, "DELETE", place(ada, job_id), status=204)

    assert text.startswith(f"the page of job {job_id} for ")
    await no_workers(lab)


async def test_a_busy_worker_is_protected_and_a_forced_deletion_waits_for_its_job(
    lab: Stack, ada: User, observer: Observer
) -> None:
    go = "go"
    waiting = f"until [ -e {lab.slurm.shared_path}/{go} ]; do sleep 0.2; done\necho whole\n"

    job = await ada.submit(HEAD + waiting, ONE_CPU)
    await in_state(observer, job.job_id, "RUNNING")

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
    await in_state(observer, job.job_id, "COMPLETED")
    assert (await ada.output(job.job_id)).splitlines()[-1] == "whole", "the preStop hook waited for the job"

    await no_workers(lab)


async def misclassified(user: User, shape: str) -> MisclassifiedFact:
    """Wait for the event `node.misclassified` of a shape."""

    async def published() -> MisclassifiedFact | None:
        facts = [event.data for event in await user.history("node.*")]
        return next((fact for fact in facts if isinstance(fact, MisclassifiedFact) and fact.shape == shape), None)

    return await until(published, seconds=120, every=0.5, what=f"node.misclassified of {shape}")


async def test_a_machine_smaller_than_its_shape_is_reported_and_runs_nothing(
    lab: Stack, ada: User, observer: Observer
) -> None:
    """compute-xlarge has 32 CPUs, more than this machine."""
    deployment = "deployment/slurmd-compute-xlarge"
    await kubectl(lab, "set", "env", deployment, "CLUSTERRA_CONFIG_OVERRIDES=no")
    job = await ada.submit(f"#!/bin/sh\n#SBATCH --constraint=compute-xlarge\n{HEAD}", ONE_CPU)

    fact = await misclassified(ada, "compute-xlarge")

    assert isinstance(lab.substrate, KubernetesEdge)
    assert (fact.node, fact.expected.cpus) == (lab.substrate.node.name, 32)
    assert fact.actual.cpus == len(os.sched_getaffinity(0))
    assert observer.states.get(job.job_id) in (None, "PENDING")


async def test_a_machine_without_its_gpus_is_reported_and_runs_nothing(
    lab: Stack, ada: User, observer: Observer
) -> None:
    """l4-small is the cheapest shape with a GPU, and this machine has none."""
    job = await ada.submit(f"#!/bin/sh\n#SBATCH --gres=gpu:1\n{HEAD}", ONE_CPU)
    fact = await misclassified(ada, "l4-small")
    assert (fact.expected.gpus, fact.expected.gpu_model) == (1, "l4")
    assert (fact.actual.gpus, fact.actual.gpu_model) == (0, "")
    assert observer.states.get(job.job_id) in (None, "PENDING")
