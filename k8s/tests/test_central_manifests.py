"""The manifests of k8s/central on a real API server: accepted strictly, admitted, and with no rights too many."""

from pathlib import Path

import pytest
from central_manifests import (
    CENTRAL,
    NAMESPACE,
    SERVICES,
    Manifest,
    apply,
    build,
    is_core,
    kubectl_path,
    named,
    overlay,
    pod_of,
    pod_spec,
)
from clusterra_contracts.bus.subjects import SHARD_COUNT
from clusterra_lab.kube.kubernetes import ControlPlane, KubectlFailed
from kube_account import VERBS, account
from kube_definitions import define, definitions
from kube_plane import account_without_rights, unscheduled

OVERLAYS = ("dev", "prod")
FOLDERS = ("namespace", "nats", "topology", "tables", *SERVICES, "authority", "admin")
ACCOUNTS = ("nats", "topology", "tables", *SERVICES, "gateway-work", "authority", "admin")


@pytest.fixture(scope="module")
async def kubectl() -> Path:
    return await kubectl_path()


@pytest.fixture(scope="module")
async def central(plane: ControlPlane, kubectl: Path) -> ControlPlane:
    """A control plane with the dev overlay applied."""
    await apply(plane, build(kubectl, CENTRAL / "base" / "namespace"))
    await apply(plane, unscheduled(build(kubectl, CENTRAL / "overlays" / "dev")))
    return plane


@pytest.mark.parametrize("name", OVERLAYS)
async def test_the_api_server_accepts_every_object_strictly(central: ControlPlane, kubectl: Path, name: str) -> None:
    wanted = [manifest for manifest in build(kubectl, CENTRAL / "overlays" / name) if is_core(manifest)]
    # A Job cannot be changed, so it is tried under another name.
    for manifest in wanted:
        if manifest["kind"] == "Job":
            manifest["metadata"]["name"] += "-again"
        if manifest["kind"] == "StatefulSet":
            manifest["metadata"]["name"] += "-again"

    accepted = await apply(central, wanted, "--dry-run=server", "--force-conflicts", "--warnings-as-errors")

    assert len(accepted.splitlines()) == len(wanted)


@pytest.mark.parametrize("name", FOLDERS)
async def test_each_folder_can_be_applied_alone(central: ControlPlane, kubectl: Path, name: str) -> None:
    wanted = build(kubectl, CENTRAL / "base" / name)
    alone = [manifest for manifest in wanted if manifest["kind"] not in ("Job", "StatefulSet")]

    await apply(central, alone, "--dry-run=server", "--force-conflicts")

    objects = {(each["kind"], each["metadata"]["name"].rpartition("-")[0]) for each in wanted}
    for manifest in wanted:
        for source in (pod_spec(manifest) or {"containers": []})["containers"]:
            for reference in source.get("envFrom", []):
                assert ("ConfigMap", reference["configMapRef"]["name"].rpartition("-")[0]) in objects


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_settings_that_each_pod_names_are_there(kubectl: Path, name: str) -> None:
    built = build(kubectl, CENTRAL / "overlays" / name)

    made = {each["metadata"]["name"] for each in built if each["kind"] == "ConfigMap"}
    named_by_pods = {
        reference["configMapRef"]["name"]
        for each in built
        for container in (pod_spec(each) or {"containers": []})["containers"]
        for reference in container.get("envFrom", [])
    }
    assert named_by_pods
    assert named_by_pods <= made


@pytest.mark.parametrize(
    ("project", "group", "count"),
    [("external-secrets", "external-secrets.io", 10), ("gateway-api", "gateway.networking.k8s.io", 2)],
)
async def test_the_api_server_accepts_objects_of_other_projects(
    central: ControlPlane, kubectl: Path, tmp_path: Path, project: str, group: str, count: int
) -> None:
    await define(central, await definitions(project))
    site = overlay(
        tmp_path, resources=[CENTRAL / "overlays" / "prod"], components=[CENTRAL / "components" / "external-secrets"]
    )
    wanted = [each for each in build(kubectl, site) if each["apiVersion"].startswith(f"{group}/")]

    accepted = await apply(central, wanted, "--dry-run=server", "--warnings-as-errors")

    assert len(accepted.splitlines()) == len(wanted) == count


async def test_a_misspelt_field_is_an_error(central: ControlPlane, kubectl: Path) -> None:
    gateway = named(build(kubectl, CENTRAL / "overlays" / "dev"), "Deployment", "gateway")
    gateway["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}

    with pytest.raises(KubectlFailed, match="field not declared in schema"):
        await apply(central, [gateway], "--dry-run=server", "--force-conflicts")


@pytest.mark.parametrize("name", OVERLAYS)
async def test_admission_lets_every_pod_in(central: ControlPlane, kubectl: Path, name: str) -> None:
    """Pod Security, the quota, the limits and the priority classes admit the pod of each workload without a warning."""
    built = build(kubectl, CENTRAL / "overlays" / name)
    workloads = [each for each in built if pod_spec(each) is not None]
    pods = [pod_of(each) for each in workloads]

    accepted = await apply(central, pods, "--dry-run=server", "--warnings-as-errors")

    assert accepted.count("pod/") == len(pods) == len(ACCOUNTS)


@pytest.mark.parametrize(
    "change",
    [
        {"hostNetwork": True},
        {"securityContext": {"runAsUser": 0}},
        {"hostPID": True},
    ],
    ids=["host network", "root", "host processes"],
)
async def test_pod_security_keeps_other_pods_out(central: ControlPlane, kubectl: Path, change: Manifest) -> None:
    deployment = named(build(kubectl, CENTRAL / "overlays" / "dev"), "Deployment", "gateway")
    pod = pod_of(deployment)
    pod["spec"] |= change

    with pytest.raises(KubectlFailed, match=r"violates PodSecurity .restricted"):
        await apply(central, [pod], "--dry-run=server")


@pytest.mark.parametrize("name", ACCOUNTS)
async def test_an_account_may_do_nothing_that_everybody_may_not(
    central: ControlPlane, namespace: str, name: str
) -> None:
    own = await central.service_account(NAMESPACE, name)
    nobodys = await account_without_rights(central, namespace)
    async with account(own) as service, account(nobodys) as nobody:
        for asked in (NAMESPACE, "kube-system"):
            assert await service.rules(asked) == await nobody.rules(asked)


@pytest.mark.parametrize("name", ACCOUNTS)
async def test_real_requests_of_an_account_are_forbidden(central: ControlPlane, name: str) -> None:
    own = f"--kubeconfig={await central.service_account(NAMESPACE, name)}"
    for request in (
        ("get", "secrets"),
        ("get", "pods"),
        ("get", "configmaps"),
        ("delete", "deployment", "gateway"),
        ("create", "serviceaccount", "another"),
    ):
        with pytest.raises(KubectlFailed, match=r"[Ff]orbidden"):
            await central.kubectl(own, f"--namespace={NAMESPACE}", *request)


async def test_the_gateways_account_may_do_nothing_anywhere(central: ControlPlane) -> None:
    """Every verb on every resource is asked for, also where no rule is listed."""
    async with account(await central.service_account(NAMESPACE, "gateway")) as service:
        everything = [(verb, group, resource) for group, resource in await service.resources() for verb in VERBS]
        assert ("get", "", "secrets") in everything

        allowed = await service.may(everything, NAMESPACE)

    # What every authenticated account may: ask for its own rights.
    assert {(verb, group) for verb, group, _ in allowed} <= {
        ("create", "authorization.k8s.io"),
        ("create", "authentication.k8s.io"),
    }


def test_there_are_no_more_replicas_than_shards(kubectl: Path) -> None:
    manifests = build(kubectl, CENTRAL / "overlays" / "prod")

    for service in ("scaler", "proxy"):
        autoscaler = named(manifests, "HorizontalPodAutoscaler", service)
        assert autoscaler["spec"]["maxReplicas"] == SHARD_COUNT
