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
FIRST = "set -e; id -u; [ $TMPDIR = /tmp ]; [ -O /tmp ]; mkdir -m 0 $TMPDIR/closed"
CPUS = "grep Cpus_allowed_list /proc/self/status"


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

    async def in_worker(self, *argv: str) -> str:
        """Run a command in the worker's pod."""
        return await self.plane.kubectl("exec", "--namespace=slurm", "deployment/slurmd-compute-xs", "--", *argv)

    async def output(self, job: int) -> str:
        """What a job has written to the shared folder so far."""
        return await self.in_worker("sh", "-c", f"cat /mnt/efs/{job}.out 2>/dev/null || :")

    async def written(self, job: int, text: str) -> None:
        """Wait until a job has written this."""

        async def has() -> bool:
            return text in await self.output(job)

        await until(has, seconds=60, what=f"{text!r} of job {job}", every=0.5)


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


async def job_state(rest: Rest, job: int) -> list[str] | None:
    answer = await rest.call("GET", f"slurm/{API}/job/{job}")
    return answer["jobs"][0]["job_state"] if answer is not None and answer["jobs"] else None


async def final_state(rest: Rest, job: int) -> object:
    """The state of a job when it has ended."""

    async def ended() -> object:
        found = await job_state(rest, job)
        return None if found is None or set(found) & {"PENDING", "RUNNING", "COMPLETING"} else found

    try:
        return await until(ended, seconds=120, what=f"job {job} to end", every=0.5)
    except TimeoutError as late:
        answer = await rest.call("GET", f"slurm/{API}/job/{job}")
        raise AssertionError(f"{late}: {json.dumps(answer and answer['jobs'])}") from late


async def test_a_job_of_a_user_runs_on_a_worker_and_is_accounted(tenant: Tenant) -> None:
    rest = tenant.rest("alice", 20001)
    await until_idle(rest)

    job = await rest.submit(FIRST)

    assert await final_state(rest, job) == ["COMPLETED"]
    assert await tenant.output(job) == "20001\n"

    # Nobody has given alice an association: slurmdbd shows the job to the operator alone.
    operator = tenant.rest(*OPERATOR)

    async def accounted() -> bool:
        records = await operator.call("GET", f"slurmdb/{API}/job/{job}")
        return records is not None and [each["state"]["current"] for each in records["jobs"]] == [["COMPLETED"]]

    await until(accounted, seconds=90, what="the job in slurmdbd", every=0.5)


async def test_a_job_gets_only_its_own_memory(tenant: Tenant) -> None:
    rest, neighbour = tenant.rest("alice", 20001), tenant.rest("bob", 20002)
    await until_idle(rest)
    good = await neighbour.submit("echo begun; until [ -e memory ]; do sleep 0.1; done")
    await tenant.written(good, "begun")

    bad = await rest.submit("taken=$(head --bytes=300000000 /dev/zero | tr '\\0' x); echo survived")

    assert await final_state(rest, bad) == ["OUT_OF_MEMORY"]
    assert "survived" not in await tenant.output(bad)
    assert await job_state(neighbour, good) == ["RUNNING"]

    await tenant.in_worker("touch", "/mnt/efs/memory")

    assert await final_state(neighbour, good) == ["COMPLETED"]


async def test_a_job_cannot_leave_its_own_cpus(tenant: Tenant) -> None:
    rest, neighbour = tenant.rest("alice", 20001), tenant.rest("bob", 20002)
    await until_idle(rest)
    good = await neighbour.submit(f"{CPUS}; echo begun; until [ -e cpus ]; do sleep 0.1; done")
    await tenant.written(good, "begun")

    other = await rest.submit(f"taskset --cpu-list --pid 0-63 $$; {CPUS}; echo end")

    await tenant.written(other, "end")
    cpus = [
        line.split()[-1]
        for job in (good, other)
        for line in (await tenant.output(job)).splitlines()
        if line.startswith("Cpus_allowed_list")
    ]
    assert all(cpu.isdigit() for cpu in cpus)
    assert len(set(cpus)) == 2

    await tenant.in_worker("touch", "/mnt/efs/cpus")

    assert await final_state(neighbour, good) == ["COMPLETED"]


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
    job = await rest.submit(FIRST, hold=True)
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
