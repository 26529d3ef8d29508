"""k8s/central/tenant runs on a real node: accounting, tokens, a worker that registers, a job, a killed slurmctld."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from central_manifests import CENTRAL, apply, build, kubectl_path
from clusterra_lab.kube.access import KubectlFailed
from clusterra_lab.kube.kubernetes import ControlPlane, control_plane
from clusterra_lab.kube.node import NodeNotPossible, real_node
from clusterra_lab.kube.node_number import reserved_node_number
from clusterra_lab.kube.programs.binaries import BINARIES, can_have_binaries
from clusterra_lab.machine.process import until
from tenant_site import (
    API,
    NAMESPACE,
    OPERATOR,
    SLURM_UID,
    Keys,
    Rest,
    images_or_skip,
    mariadb_ids,
    tenant_overlay,
    volume,
    worker,
)

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.containers,
    pytest.mark.skipif(
        not can_have_binaries(BINARIES),
        reason="the Kubernetes programs are not in KUBEBUILDER_ASSETS, and there is no 'go' to build them",
    ),
]

SECONDS = 240
JOB = {
    "script": "#!/bin/sh\nid -u\n[ $TMPDIR = /tmp ] && [ -O /tmp ] && mkdir -m 0 /tmp/closed\n",
    "job": {
        "name": "first",
        "current_working_directory": "/tmp",
        "environment": ["PATH=/usr/bin:/bin"],
        "partition": "main",
        "cpus_per_task": 1,
        "memory_per_node": {"set": True, "number": 100},
    },
}


@dataclass(frozen=True)
class Tenant:
    """A control plane that runs, and its keys."""

    plane: ControlPlane
    keys: Keys
    address: str
    """Of slurmrestd's Service."""

    def rest(self, name: str, uid: int) -> Rest:
        return Rest(self.address, self.keys.token(name, uid))

    async def kubectl(self, *argv: str) -> str:
        return await self.plane.kubectl(f"--namespace={NAMESPACE}", *argv)


@pytest.fixture(scope="module")
async def tenant(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tenant]:
    folder = tmp_path_factory.mktemp("tenant")
    images, kubectl = images_or_skip(folder / "images.tar"), await kubectl_path()
    keys, mariadb = Keys.made(folder / "keys"), mariadb_ids()
    try:
        async with (
            reserved_node_number(own_network=True) as number,
            control_plane(folder / "kubernetes", site=number.site) as plane,
            real_node(plane, number=number, images=[images]),
        ):
            # In both are the priorities that the tenant's pods name.
            await apply(plane, build(kubectl, CENTRAL / "base" / "namespace"))
            await apply(plane, build(kubectl, tenant_overlay(folder / "overlay", keys, mariadb)))
            await apply(
                plane,
                [
                    volume("state-slurmctld-0", folder / "state", SLURM_UID, SLURM_UID),
                    volume("data-mariadb-0", folder / "mariadb", *mariadb),
                ],
            )
            where, within = f"--namespace={NAMESPACE}", f"--timeout={SECONDS}s"
            try:
                for workload in ("statefulset/mariadb", "deployment/slurmdbd", "statefulset/slurmctld"):
                    await plane.kubectl("rollout", "status", workload, where, within)
                for workload in ("deployment/slurmrestd", "deployment/login"):
                    await plane.kubectl("rollout", "status", workload, where, within)
                await plane.kubectl("wait", "--for=condition=complete", "job/operator", where, within)
            except KubectlFailed as error:
                raise AssertionError(f"{error}\n{await state(plane)}") from error
            await apply(plane, worker(kubectl, keys))
            service = json.loads(await plane.kubectl("get", "service", "slurmrestd", where, "--output=json"))
            yield Tenant(plane, keys, service["spec"]["clusterIP"])
    except NodeNotPossible as problem:
        pytest.skip(str(problem))


async def state(plane: ControlPlane) -> str:
    """The pods of the tenant, what happened to them, and the end of their logs."""
    where = f"--namespace={NAMESPACE}"
    found = [await plane.kubectl("get", "pods", where, "--output=wide"), await plane.kubectl("get", "events", where)]
    for name in (await plane.kubectl("get", "pods", where, "--output=name")).split():
        found.append(f"== {name}\n{await plane.kubectl('logs', name, where, '--all-containers', '--tail=15')}")
    return "\n".join(found)


async def until_idle(rest: Rest) -> None:
    async def idle() -> bool:
        answer = await rest.call("GET", f"slurm/{API}/nodes/")
        return answer is not None and [node["state"] for node in answer["nodes"]] == [["IDLE", "DYNAMIC_NORM"]]

    await until(idle, seconds=60, what="the worker to register", every=0.5)


async def until_completed(rest: Rest, job: int) -> dict[str, object]:
    found: dict[str, object] = {}

    async def completed() -> bool:
        answer = await rest.call("GET", f"slurm/{API}/job/{job}")
        if answer is None or not answer["jobs"]:
            return False
        found.update(answer["jobs"][0])
        return found["job_state"] == ["COMPLETED"]

    await until(completed, seconds=60, what=f"the end of job {job}, which is {found.get('job_state')}", every=0.5)
    return found


async def test_a_job_of_a_user_runs_on_a_worker_and_is_accounted(tenant: Tenant) -> None:
    rest = tenant.rest("alice", 20001)
    await until_idle(rest)

    answer = await rest.call("POST", f"slurm/{API}/job/submit", JOB)
    job = await until_completed(rest, answer["job_id"])

    assert job["user_id"] == 20001

    async def accounted() -> bool:
        records = await rest.call("GET", f"slurmdb/{API}/job/{answer['job_id']}")
        return records is not None and [each["state"]["current"] for each in records["jobs"]] == [["COMPLETED"]]

    await until(accounted, seconds=30, what="the job in slurmdbd", every=0.5)


async def test_the_operator_may_drain_and_a_user_may_not(tenant: Tenant) -> None:
    rest = tenant.rest(*OPERATOR)
    await until_idle(rest)
    (node,) = (await rest.call("GET", f"slurm/{API}/nodes/"))["nodes"]
    drain = {"state": ["DRAIN"], "reason": "test"}

    assert await tenant.rest("alice", 20001).call("POST", f"slurm/{API}/node/{node['name']}", drain) is None
    assert await rest.call("POST", f"slurm/{API}/node/{node['name']}", drain) is not None
    assert await rest.call("POST", f"slurm/{API}/node/{node['name']}", {"state": ["RESUME"]}) is not None

    await until_idle(rest)


async def test_slurmctld_comes_back_with_its_jobs_after_its_pod_is_killed(tenant: Tenant) -> None:
    rest = tenant.rest("alice", 20001)
    await until_idle(rest)
    held = {**JOB, "job": {**JOB["job"], "hold": True}}  # type: ignore[dict-item]
    job = (await rest.call("POST", f"slurm/{API}/job/submit", held))["job_id"]
    before = await tenant.kubectl("get", "pod", "slurmctld-0", "--output=jsonpath={.metadata.uid}")

    await tenant.kubectl("delete", "pod", "slurmctld-0", "--grace-period=0", "--force")

    async def replaced() -> bool:
        status = await tenant.kubectl("get", "pod", "slurmctld-0", "--ignore-not-found", "--output=json")
        pod = json.loads(status or "{}")
        ready = [each["ready"] for each in pod.get("status", {}).get("containerStatuses", ())]
        return bool(pod) and pod["metadata"]["uid"] != before and ready == [True]

    await until(replaced, seconds=120, what="another slurmctld", every=0.5)

    async def known() -> bool:
        answer = await rest.call("GET", f"slurm/{API}/job/{job}")
        return answer is not None and bool(answer["jobs"])

    await until(known, seconds=60, what=f"job {job} in the new slurmctld", every=0.5)


async def test_people_use_slurms_commands_without_the_key(tenant: Tenant) -> None:
    login = ("exec", "deployment/login", "--container=login", "--")
    token = tenant.keys.token("alice", 20001)
    await tenant.kubectl("rollout", "status", "deployment/login", f"--timeout={SECONDS}s")

    listed = await tenant.kubectl(*login, "env", f"SLURM_JWT={token}", "sinfo", "--noheader", "--format=%P %T")
    with pytest.raises(KubectlFailed):
        await tenant.kubectl(*login, "cat", "/etc/slurm/slurm.key")

    assert "main*" in listed
