"""A real Kubernetes control plane: its access rules, restarts, and cleanup."""

import asyncio
import json
import signal
import stat
import sys
from pathlib import Path

import psutil
import pytest
from clusterra_lab.kube.certificates import Authority
from clusterra_lab.kube.kubeconfig import certificate_user, write_kubeconfig
from clusterra_lab.kube.kubernetes import GIVEN, ControlPlane, KubectlFailed, NoKubeconfig, control_plane, kubernetes
from clusterra_lab.kube.programs.binaries import CONTROL_PLANE, can_have_binaries
from clusterra_lab.machine.process import until

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.skipif(
        not can_have_binaries(CONTROL_PLANE),
        reason="the Kubernetes programs are not in KUBEBUILDER_ASSETS, and there is no 'go' to build them",
    ),
]

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: workers}
spec:
  replicas: 0
  selector: {matchLabels: {app: workers}}
  template:
    metadata: {labels: {app: workers}}
    spec:
      schedulerName: nobody
      containers: [{name: worker, image: worker}]
"""

SCALER = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: scaler}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: scaler}
rules:
- {apiGroups: [apps], resources: [deployments], verbs: [get]}
- {apiGroups: [apps], resources: [deployments/scale], verbs: [get, patch, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: scaler}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: scaler}
subjects: [{kind: ServiceAccount, name: scaler}]
"""

COMPONENTS = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]

HOLD = """
import asyncio, pathlib, sys
from clusterra_lab.kube.certificates import Authority
from clusterra_lab.kube.kubeconfig import certificate_user, write_kubeconfig
from clusterra_lab.kube.kubernetes import control_plane
async def main():
    async with control_plane(pathlib.Path(sys.argv[1])) as plane:
        print(await plane.kubectl("create", "namespace", "only-once"), end="", flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


async def pods(plane: ControlPlane, namespace: str) -> list[str]:
    listed = await plane.kubectl("get", "pods", f"--namespace={namespace}", "--output=json")
    return [pod["status"]["phase"] for pod in json.loads(listed)["items"]]


async def pods_become(plane: ControlPlane, namespace: str, phases: list[str]) -> None:
    async def are() -> bool:
        return await pods(plane, namespace) == phases

    await until(are, seconds=240, what=f"pods {phases} in {namespace}", every=0.1)


def running(directory: Path) -> list[str]:
    """The names of running components whose command line names `directory`."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = process.info["cmdline"] or [""]
        name = Path(command[0]).name
        if (
            name in COMPONENTS
            and process.info["status"] != psutil.STATUS_ZOMBIE
            and str(directory) in " ".join(command)
        ):
            found.append(name)
    return found


async def test_only_the_owner_can_read_the_administrators_kubeconfig(plane: ControlPlane) -> None:
    assert stat.S_IMODE(plane.kubeconfig.stat().st_mode) == 0o600
    assert plane.url in plane.kubeconfig.read_text()


async def test_a_deployment_has_as_many_pods_as_its_replicas(plane: ControlPlane, namespace: str) -> None:
    where = f"--namespace={namespace}"
    await plane.kubectl("create", where, "--filename=-", input=DEPLOYMENT)
    scale = await plane.kubectl("get", f"--raw=/apis/apps/v1/namespaces/{namespace}/deployments/workers/scale")
    assert json.loads(scale)["spec"] == {}
    for count in (3, 1):
        await plane.kubectl("scale", "deployment/workers", where, f"--replicas={count}")
        await pods_become(plane, namespace, ["Pending"] * count)


async def test_a_service_account_has_only_the_rights_of_its_role(plane: ControlPlane, namespace: str) -> None:
    where = f"--namespace={namespace}"
    await plane.kubectl("create", where, "--filename=-", input=DEPLOYMENT + "---" + SCALER)
    scaler = await plane.service_account(namespace, "scaler")

    assert stat.S_IMODE(scaler.stat().st_mode) == 0o600

    as_scaler = f"--kubeconfig={scaler}"
    await plane.kubectl("scale", "deployment/workers", where, "--replicas=1", as_scaler)
    await pods_become(plane, namespace, ["Pending"])
    for forbidden in (
        ["delete", "deployment", "workers", where],
        ["get", "pods", where],
        ["get", "deployment", "workers", "--namespace=default"],
        ["get", "nodes"],
    ):
        with pytest.raises(KubectlFailed, match=f'Forbidden.*"system:serviceaccount:{namespace}:scaler" cannot'):
            await plane.kubectl(*forbidden, as_scaler)


async def test_a_missing_service_account_gets_no_token(plane: ControlPlane) -> None:
    with pytest.raises(KubectlFailed, match='serviceaccounts "nobody" not found'):
        await plane.service_account("default", "nobody")


async def test_a_client_certificate_of_another_run_is_rejected(plane: ControlPlane, tmp_path: Path) -> None:
    earlier = Authority.new("kubernetes").client("administrator", "system:masters")
    kubeconfig = write_kubeconfig(
        tmp_path / "kubeconfig",
        url=plane.url,
        authority=plane.authority.certificate,
        user=certificate_user(earlier),
    )

    with pytest.raises(KubectlFailed, match=r"Unauthorized|must be logged in"):
        await plane.kubectl("get", "nodes", f"--kubeconfig={kubeconfig}")


async def test_pod_security_and_quotas_are_enforced(plane: ControlPlane, namespace: str) -> None:
    where = f"--namespace={namespace}"
    await plane.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")

    with pytest.raises(KubectlFailed, match="violates PodSecurity"):
        await plane.kubectl("run", "worker", "--image=worker", where)

    await plane.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce-")
    await plane.kubectl("create", "quota", "none", "--hard=pods=0", where)

    async def rejected() -> bool:
        try:
            await plane.kubectl("run", "worker", "--image=worker", where)
        except KubectlFailed as failed:
            return "exceeded quota: none" in str(failed)
        raise AssertionError("a pod above the quota")

    await until(rejected, seconds=90, what="the quota")


async def test_a_kubernetes_from_the_environment_is_used_and_keeps_running(
    plane: ControlPlane, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = f"--namespace={namespace}"
    monkeypatch.setenv(GIVEN, str(plane.kubeconfig))
    async with kubernetes(tmp_path) as given:
        assert given.url == plane.url
        await given.kubectl("create", "serviceaccount", "from-outside", where)
    await plane.kubectl("get", "serviceaccount", "from-outside", where)


async def test_a_missing_kubeconfig_in_the_environment_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(GIVEN, str(tmp_path / "none"))
    with pytest.raises(NoKubeconfig, match=f"{GIVEN}={tmp_path}/none"):
        async with kubernetes(tmp_path):
            pass


async def test_a_control_plane_ends_with_a_killed_owner_or_its_block_and_starts_empty(tmp_path: Path) -> None:
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert holder.stdout
        assert await asyncio.wait_for(holder.stdout.readline(), 60) == b"namespace/only-once created\n"
        assert sorted(running(tmp_path)) == COMPONENTS
    finally:
        holder.send_signal(signal.SIGKILL)
        await holder.wait()
    await until(lambda: not running(tmp_path), seconds=90, what="the end of all processes")

    async with control_plane(tmp_path) as plane:
        assert sorted(running(tmp_path)) == COMPONENTS
        await plane.kubectl("create", "namespace", "only-once")

    assert running(tmp_path) == []


async def test_a_killed_api_server_restarts_with_its_port_and_its_state(tmp_path: Path) -> None:
    async with control_plane(tmp_path) as plane:
        await plane.kubectl("create", "--filename=-", input=DEPLOYMENT)
        await plane.kill_api_server()

        with pytest.raises(KubectlFailed, match="refused"):
            await plane.kubectl("get", "deployments")

        await plane.start_api_server()
        await plane.kubectl("scale", "deployment/workers", "--replicas=2")
        await pods_become(plane, "default", ["Pending"] * 2)
