"""The Kubernetes hardening guidance of NSA and CISA, for every workload of k8s: central, tenants and edge."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from central_manifests import CENTRAL, Manifest, build, kubectl_path, overlay, pod_spec

EDGE = CENTRAL.parent / "edge"
ROOT_CAPABILITIES = {"CHOWN", "KILL", "SETGID", "SETUID"}
"""What slurmd needs as root to run each job as its user."""


@pytest.fixture(scope="module")
async def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Manifest]]:
    """Where -> its objects."""
    kubectl = await kubectl_path()
    tenant = overlay(
        tmp_path_factory.mktemp("tenant"),
        resources=[CENTRAL / "tenant"],
        components=[CENTRAL / "tenant" / "mariadb", CENTRAL / "tenant" / "peering"],
        namespace="tenant-acme",
    )
    folders: dict[str, Path] = {
        "dev": CENTRAL / "overlays" / "dev",
        "prod": CENTRAL / "overlays" / "prod",
        "tenant": tenant,
        "edge": EDGE,
    }
    return {where: build(kubectl, folder) for where, folder in folders.items()}


@pytest.fixture(scope="module")
def pods(built: dict[str, list[Manifest]]) -> dict[str, Manifest]:
    """Where and name of each workload -> its pod's spec."""
    found = {
        f"{where}/{manifest['metadata']['name']}": spec
        for where, manifests in built.items()
        for manifest in manifests
        if (spec := pod_spec(manifest)) is not None
    }
    assert len(found) > 40
    return found


def is_worker(name: str) -> bool:
    """Whether this is slurmd, which is root."""
    return name.startswith("edge/slurmd-")


def containers(pods: dict[str, Manifest]) -> Iterator[tuple[str, Manifest, Manifest]]:
    """Name, pod and container of each container, also of those that run first."""
    for name, spec in pods.items():
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            yield f"{name}/{container['name']}", spec, container


def test_no_container_is_root_except_the_workers(pods: dict[str, Manifest]) -> None:
    for name, spec, container in containers(pods):
        of_container, of_pod = container["securityContext"], spec["securityContext"]
        user = of_container.get("runAsUser", of_pod.get("runAsUser"))
        assert (user == 0) == is_worker(name), name
        if not is_worker(name):
            assert of_container.get("runAsNonRoot", of_pod.get("runAsNonRoot")), name


def test_every_root_file_system_is_read_only(pods: dict[str, Manifest]) -> None:
    for name, _, container in containers(pods):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True, name


def test_no_container_can_gain_privileges(pods: dict[str, Manifest]) -> None:
    for name, spec, container in containers(pods):
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False, name
        assert "privileged" not in context, name
        assert context["capabilities"]["drop"] == ["ALL"], name
        assert set(context["capabilities"].get("add", ())) == (ROOT_CAPABILITIES if is_worker(name) else set()), name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name


def test_nothing_of_the_host_is_shared(pods: dict[str, Manifest]) -> None:
    for name, spec in pods.items():
        assert not {"hostNetwork", "hostPID", "hostIPC", "hostUsers"} & spec.keys(), name
        assert not [volume for volume in spec.get("volumes", ()) if "hostPath" in volume], name
        assert not [
            port for container in spec["containers"] for port in container.get("ports", ()) if "hostPort" in port
        ], name


def test_every_container_has_requests_and_limits(pods: dict[str, Manifest]) -> None:
    for name, _, container in containers(pods):
        requests, limits = container["resources"]["requests"], container["resources"]["limits"]
        assert {"cpu", "memory"} <= requests.keys(), name
        assert "memory" in limits, name
        assert "cpu" not in limits, f"{name}: a limit would delay it while cores are idle"
        if not name.startswith("edge/slurmd"):
            assert "ephemeral-storage" in requests.keys() & limits.keys(), name


def test_every_writable_folder_has_a_size(pods: dict[str, Manifest]) -> None:
    for name, spec in pods.items():
        for volume in spec.get("volumes", ()):
            if "emptyDir" in volume and not is_worker(name):
                assert "sizeLimit" in volume["emptyDir"], (name, volume["name"])


def test_only_the_agent_has_a_token(pods: dict[str, Manifest]) -> None:
    with_token = {name for name, spec in pods.items() if spec.get("automountServiceAccountToken") is not False}

    assert with_token == {"edge/edge-agent"}


def test_every_workload_has_an_account_of_its_own(pods: dict[str, Manifest]) -> None:
    for name, spec in pods.items():
        if not is_worker(name):
            assert spec["serviceAccountName"] == name.rpartition("/")[2]


def test_no_secret_is_in_the_environment(pods: dict[str, Manifest]) -> None:
    for name, _, container in containers(pods):
        assert not [each for each in container.get("envFrom", ()) if "secretRef" in each], name
        assert not [each for each in container.get("env", ()) if "secretKeyRef" in each.get("valueFrom", {})], name


def test_no_manifest_contains_a_secret(built: dict[str, list[Manifest]]) -> None:
    assert not [manifest for manifests in built.values() for manifest in manifests if manifest["kind"] == "Secret"]


def test_long_running_workloads_are_probed(pods: dict[str, Manifest]) -> None:
    unprobed = {
        name
        for name, _, container in containers(pods)
        if not {"livenessProbe", "readinessProbe"} <= container.keys() and not is_worker(name)
    }

    # Jobs and what runs before a container end by themselves; in the other two somebody types commands.
    assert {name.partition("/")[2] for name in unprobed} == {
        "tables/tables",
        "topology/topology",
        "operator/operator",
        "slurmdbd/configure",
        "slurmctld/first-start",
        "admin/admin",
        "login/login",
    }


def test_namespaces_enforce_warn_and_audit_pod_security(built: dict[str, list[Manifest]]) -> None:
    levels = {
        manifest["metadata"]["name"]: {
            label.rpartition("/")[2]: value
            for label, value in manifest["metadata"]["labels"].items()
            if label.startswith("pod-security.kubernetes.io/")
        }
        for manifests in built.values()
        for manifest in manifests
        if manifest["kind"] == "Namespace"
    }

    assert levels == {
        "clusterra": dict.fromkeys(("enforce", "warn", "audit"), "restricted"),
        "tenant-acme": dict.fromkeys(("enforce", "warn", "audit"), "restricted"),
        # slurmd is root.
        "slurm": dict.fromkeys(("enforce", "warn", "audit"), "baseline"),
    }


@pytest.mark.parametrize("where", ["dev", "prod", "tenant"])
def test_namespaces_have_a_quota_and_limits(built: dict[str, list[Manifest]], where: str) -> None:
    kinds = [manifest["kind"] for manifest in built[where]]

    assert kinds.count("ResourceQuota") == kinds.count("LimitRange") == kinds.count("Namespace") == 1
