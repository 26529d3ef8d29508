"""The manifests of k8s/edge: their content, and their effect on a real API server."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from clusterra_contracts.shapes import Catalogue, Shape
from clusterra_edge_agent.kubernetes import egress, manifests
from clusterra_edge_agent.kubernetes.client.api import Api, Collection, connected
from clusterra_edge_agent.kubernetes.client.resources import SHAPE_LABEL, Pod
from clusterra_edge_agent.kubernetes.election import lease
from clusterra_edge_agent.kubernetes.machines import karpenter
from clusterra_edge_agent.kubernetes.workers.deletion_policy import DeletionPolicy, can_probe
from clusterra_edge_agent.kubernetes.workers.replicas import SURPLUS_COST, VICTIM_COST
from clusterra_edge_agent.settings import Settings
from clusterra_lab.kube.kubernetes import ControlPlane, KubectlFailed
from clusterra_lab.machine.process import until
from clusterra_runtime import catalogue
from clusterra_runtime.catalogue import CatalogueInvalid
from kube_account import LEASE, VERBS, account
from kube_definitions import define, definitions
from kube_plane import account_without_rights, unscheduled
from kube_release import DIGESTS, readme_overlays, released_images

ROOT = Path(__file__).parents[3]
EDGE = ROOT / "k8s" / "edge"
SHAPES = catalogue.load(ROOT / "catalog" / "shapes.yaml").shapes
GPU_SHAPES = [shape for shape in SHAPES if shape.gpu_count]
FAMILIES = sorted({shape.family for shape in SHAPES})
SLURM = "slurm"
PLACEHOLDERS = ("replace-me", "192.0.2.", "198.51.100.")
RIGHTS = {
    ("list", "apps", "deployments"),
    ("watch", "apps", "deployments"),
    ("patch", "apps", "deployments/scale"),
    ("list", "", "pods"),
    ("watch", "", "pods"),
    ("patch", "", "pods"),
    ("delete", "", "pods"),
    ("create", "coordination.k8s.io", "leases"),
}
"""Verb, group and resource: all permissions that the agent has only in its own namespace."""
RIGHTS_EVERYWHERE = {
    ("list", "", "nodes"),
    ("watch", "", "nodes"),
    ("list", "karpenter.sh", "nodeclaims"),
    ("watch", "karpenter.sh", "nodeclaims"),
    ("delete", "karpenter.sh", "nodeclaims"),
}
"""Permissions for cluster-wide resources."""


def generated(path: str) -> Any:
    return yaml.safe_load((EDGE / "generated" / path).read_text())


def generated_deployment(shape: Shape) -> Any:
    return generated(f"{shape.family}/slurmd-{shape.name}.yaml")


def manifests_of(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


def is_karpenter(manifest: dict[str, Any]) -> bool:
    return "karpenter" in manifest["apiVersion"]


def command(*argv: str) -> subprocess.CompletedProcess[str]:
    module = [sys.executable, "-m", "clusterra_edge_agent.kubernetes.manifests"]
    return subprocess.run([*module, *argv], cwd=ROOT, capture_output=True, text=True, check=False, timeout=30)


# Content


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_each_shape_has_a_deployment_with_no_replicas_that_fits_its_nodes(shape: Shape) -> None:
    deployment = generated_deployment(shape)
    spec, pod = deployment["spec"], deployment["spec"]["template"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert (deployment["metadata"]["namespace"], deployment["metadata"]["name"]) == (SLURM, f"slurmd-{shape.name}")
    assert spec["replicas"] == 0
    assert spec["selector"]["matchLabels"] == {"app.kubernetes.io/name": "slurmd", SHAPE_LABEL: shape.name}
    assert spec["selector"]["matchLabels"] == deployment["metadata"]["labels"]
    assert labels == {**spec["selector"]["matchLabels"], karpenter.FAMILY_LABEL: shape.family}
    assert spec["template"]["metadata"]["annotations"] == {"karpenter.sh/do-not-disrupt": "true"}
    assert {probe for probe in pod["containers"][0] if probe.endswith("Probe")} == {"startupProbe"}

    node = generated(f"{shape.family}/nodepool.yaml")["spec"]["template"]
    allowed = {each["key"]: each["values"] for each in node["spec"]["requirements"]}
    allowed |= {label: [value] for label, value in node["metadata"]["labels"].items()}
    assert all(value in allowed[label] for label, value in pod["nodeSelector"].items())
    assert pod["nodeSelector"][karpenter.CPU_LABEL] == str(shape.vcpu)
    taints = {(taint["key"], taint["effect"]) for taint in node["spec"]["taints"]}
    assert taints <= {(each["key"], each["effect"]) for each in pod["tolerations"]}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_one_worker_fills_a_node_and_leaves_the_nodes_own_reserve(shape: Shape) -> None:
    resources = generated_deployment(shape)["spec"]["template"]["spec"]["containers"][0]["resources"]
    kubelet = generated("ec2nodeclass.yaml")["spec"]["kubelet"]
    assert resources["requests"] == {"cpu": resources["requests"]["cpu"], **resources["limits"]}
    assert resources["limits"].keys() - {karpenter.GPU_RESOURCE} == {"memory", "ephemeral-storage"}
    assert int(resources["limits"].get(karpenter.GPU_RESOURCE, 0)) == shape.gpu_count

    cpu, memory = millis(resources["requests"]["cpu"]), mib(resources["requests"]["memory"])
    reserved = mib(kubelet["kubeReserved"]["memory"]) + mib(kubelet["evictionHard"]["memory.available"])
    free_cpu = 1000 * shape.vcpu - millis(kubelet["kubeReserved"]["cpu"])
    free_memory = shape.memory_mib * 0.925 - reserved
    daemons = karpenter.daemon_requests(shape)

    assert cpu + daemons.cpu_millis <= free_cpu < 2 * cpu
    assert memory + daemons.memory_mib <= free_memory < 2 * memory
    assert shape.worker.memory_mib + manifests.SLURMD_MEMORY_MIB <= memory, (
        "jobs may use all the memory that Slurm allocates"
    )


@pytest.mark.parametrize("shape", GPU_SHAPES, ids=lambda shape: shape.name)
def test_gpu_nodes_admit_only_their_workers_and_the_device_plugin(shape: Shape) -> None:
    pool = generated(f"{shape.family}/nodepool.yaml")["spec"]["template"]
    pod = generated_deployment(shape)["spec"]["template"]["spec"]
    assert {taint["key"]: taint["value"] for taint in pool["spec"]["taints"]} == {
        "clusterra.io/worker": "true",
        "clusterra.io/gpu": "true",
    }
    assert "startupTaints" not in pool["spec"], "nobody would remove them"
    assert pool["metadata"]["labels"]["nvidia.com/gpu.present"] == "true", "NVIDIA's chart runs the plugin there"
    assert pod["nodeSelector"]["kubernetes.io/arch"] == "amd64"

    environment = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    assert environment["CLUSTERRA_GPUS"] == str(shape.gpu_count)
    assert environment["CLUSTERRA_GPU_MODEL"] == shape.gpu_model
    assert environment["CLUSTERRA_WEIGHT"] == str(shape.worker.weight) != "1"
    assert environment["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"


def test_cheaper_gpu_models_get_lower_weights() -> None:
    cheapest: dict[int, float] = {}
    for shape in GPU_SHAPES:
        price = shape.usd_per_hour / shape.gpu_count
        cheapest[shape.worker.weight] = min(price, cheapest.get(shape.worker.weight, price))
    assert [price for _, price in sorted(cheapest.items())] == sorted(cheapest.values())
    assert len(cheapest) == len({shape.gpu_model for shape in GPU_SHAPES})


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if not shape.gpu_count], ids=lambda shape: shape.name)
def test_workers_without_gpus_cannot_run_on_gpu_nodes(shape: Shape) -> None:
    manifest = generated_deployment(shape)["spec"]["template"]["spec"]
    assert "clusterra.io/gpu" not in {each["key"] for each in manifest["tolerations"]}
    assert manifest["nodeSelector"]["kubernetes.io/arch"] == "arm64"
    environment = {each["name"]: each.get("value") for each in manifest["containers"][0]["env"]}
    assert environment["CLUSTERRA_WEIGHT"] == "1"
    assert not [name for name in environment if "GPU" in name]


def test_no_shape_may_promise_more_memory_than_its_node_has() -> None:
    shape = SHAPES[0].model_copy(update={"real_memory_mib": SHAPES[0].worker.memory_mib + 1})
    message = f"{shape.name}: real_memory_mib must be at most {SHAPES[0].worker.memory_mib},"

    with pytest.raises(CatalogueInvalid, match=message):
        manifests.files(Catalogue(shapes=(shape,)))


def millis(quantity: str) -> int:
    assert quantity.endswith("m")
    return int(quantity[:-1])


def mib(quantity: str) -> int:
    assert quantity.endswith("Mi")
    return int(quantity[:-2])


def test_nodes_are_removed_only_when_empty() -> None:
    for family in FAMILIES:
        spec = generated(f"{family}/nodepool.yaml")["spec"]
        assert spec["disruption"]["consolidationPolicy"] == "WhenEmpty"
        assert spec["template"]["spec"]["expireAfter"] == "Never"
        assert "terminationGracePeriod" not in spec["template"]["spec"]


def test_the_generated_files_match_the_catalogue() -> None:
    checked = command("check")
    assert (checked.returncode, checked.stderr) == (0, "")


def test_check_names_differing_files_and_write_repairs_them(tmp_path: Path) -> None:
    folder = f"--folder={tmp_path}"
    assert command("write", folder).returncode == 0
    written = contents(tmp_path)
    assert written == contents(EDGE / "generated")
    (tmp_path / "compute" / "slurmd-compute-xs.yaml").write_text("replicas: 1\n")
    (tmp_path / "general" / "slurmd-general-xs.yaml").unlink()
    (tmp_path / "obsolete").mkdir()
    (tmp_path / "obsolete" / "slurmd-obsolete-xs.yaml").touch()

    checked = command("check", folder)
    assert checked.returncode == 1
    assert re.findall(r"slurmd-\S+\.yaml", checked.stderr) == [
        "slurmd-compute-xs.yaml",
        "slurmd-general-xs.yaml",
        "slurmd-obsolete-xs.yaml",
    ]
    assert "run `python -m clusterra_edge_agent.kubernetes.manifests write`" in checked.stderr
    assert command("write", folder).returncode == 0
    assert contents(tmp_path) == written
    assert not (tmp_path / "obsolete").exists()


def test_no_folder_has_more_than_twenty_files() -> None:
    folders = Counter(path.parent for path in contents(EDGE / "generated"))

    assert max(folders.values()) <= 20


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_without_a_catalogue_nothing_is_written(tmp_path: Path) -> None:
    result = command("write", f"--catalogue={tmp_path / 'none.yaml'}", f"--folder={tmp_path}")
    assert result.returncode == 2
    assert "none.yaml cannot be read" in result.stderr
    assert list(tmp_path.iterdir()) == []


# On a real API server


@pytest.fixture(scope="module")
async def built(plane: ControlPlane) -> list[dict[str, Any]]:
    return manifests_of(await plane.kubectl("kustomize", str(EDGE)))


@pytest.fixture(scope="module")
async def slurm(plane: ControlPlane) -> ControlPlane:
    """The shared control plane with the namespace `slurm`, which no other file uses."""
    await plane.kubectl("create", f"--filename={EDGE / 'base' / 'namespace.yaml'}")
    return plane


@pytest.fixture(scope="module")
async def edge(slurm: ControlPlane, built: list[dict[str, Any]]) -> ControlPlane:
    """A control plane with all manifests applied, the policy in force, and one worker of memory-xlarge."""
    plane = slurm
    await apply(plane, *unscheduled(manifest for manifest in built if not is_karpenter(manifest)))

    async def in_force() -> bool:
        try:
            await plane.kubectl(
                "delete", "deployment", "slurmd-memory-xlarge", f"--namespace={SLURM}", "--dry-run=server"
            )
        except KubectlFailed as error:
            return "this shape has workers" in str(error)
        return False

    await plane.kubectl("scale", "deployment/slurmd-memory-xlarge", f"--namespace={SLURM}", "--replicas=1")
    await until(in_force, seconds=90, what="the policy to be in force", every=0.1)
    return plane


@pytest.fixture
async def agent(edge: ControlPlane) -> AsyncIterator[Api]:
    """The agent's own client of the API server, with its own token."""
    async with connected(SLURM, await edge.service_account(SLURM, "edge-agent")) as api:
        yield api


async def apply(plane: ControlPlane, *wanted: dict[str, Any], options: tuple[str, ...] = ()) -> str:
    how = ("apply", "--server-side", "--validate=strict", "--filename=-", *options)
    return await plane.kubectl(*how, input=yaml.safe_dump_all(wanted))


async def until_pods(agent: Api, shape: str, count: int) -> list[Pod]:
    """Waits until a shape has this many pods and its Deployment's status agrees. Returns the pods."""
    pods: list[Pod] = []

    async def all_there() -> bool:
        pods[:], _ = await agent.list(Collection.pods(SLURM, f"{SHAPE_LABEL}={shape}"))
        (deployment,), _ = await agent.list(Collection.deployments(SLURM, f"{SHAPE_LABEL}={shape}"))
        return len(pods) == deployment.status.replicas == count

    await until(all_there, seconds=90, what=f"{count} pods of {shape}", every=0.05)
    return pods


async def test_the_api_server_accepts_every_manifest(slurm: ControlPlane, built: list[dict[str, Any]]) -> None:
    core = [manifest for manifest in built if not is_karpenter(manifest)]
    accepted = await apply(slurm, *core, options=("--dry-run=server",))
    assert len(accepted.splitlines()) == len(core)
    assert accepted.count("deployment.apps/slurmd-") == len(SHAPES)


async def test_the_api_server_accepts_the_node_pools_with_karpenters_definitions(
    plane: ControlPlane, built: list[dict[str, Any]]
) -> None:
    await define(plane, await definitions("karpenter"))
    nodes = [manifest for manifest in built if is_karpenter(manifest)]
    accepted = await apply(plane, *nodes, options=("--dry-run=server",))

    assert accepted.count("nodepool.karpenter.sh/slurmd-") == len(FAMILIES)
    assert accepted.count("ec2nodeclass.karpenter.k8s.aws/slurmd") == 1

    misspelt = nodes[0] | {"spec": nodes[0]["spec"] | {"expireAftr": "Never"}}
    with pytest.raises(KubectlFailed, match=r"spec\.expireAftr: field not declared in schema"):
        await apply(plane, misspelt, options=("--dry-run=server",))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"egress": "open", "except": ["10.0.0.0/8", "fd00::/8"]},
        {"egress": "listed", "to": [{"cidr": "0.0.0.0/0", "ports": [{"port": 443}, {"port": 123, "protocol": "UDP"}]}]},
        {"egress": "listed", "to": [{"cidr": "2001:db8::/32", "ports": [{"port": 8000, "end_port": 8010}]}]},
    ],
    ids=str,
)
async def test_the_api_server_accepts_the_policy_of_an_egress_file(slurm: ControlPlane, given: dict[str, Any]) -> None:
    policy = egress.policy(egress.Egress.model_validate(given))

    accepted = await apply(slurm, policy, options=("--dry-run=server",))

    assert accepted == "networkpolicy.networking.k8s.io/slurmd-egress serverside-applied (server dry run)\n"


async def test_the_readmes_overlay_replaces_every_placeholder(
    slurm: ControlPlane, built: list[dict[str, Any]], tmp_path: Path
) -> None:
    overlay = readme_overlays()[0]
    base = os.path.relpath(EDGE, tmp_path)
    overlay = overlay.replace("../clusterra/k8s/edge", base).replace(DIGESTS, released_images(tmp_path))
    (tmp_path / "kustomization.yaml").write_text(overlay)

    site = await slurm.kubectl("kustomize", str(tmp_path))

    assert not [placeholder for placeholder in PLACEHOLDERS if placeholder in site]
    assert all(placeholder in yaml.safe_dump_all(built) for placeholder in PLACEHOLDERS)

    core = [manifest for manifest in manifests_of(site) if not is_karpenter(manifest)]
    await apply(slurm, *core, options=("--dry-run=server", "--force-conflicts"))


async def test_the_agents_settings_match_its_volumes(
    built: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_of = {
        each["metadata"]["name"].rpartition("-")[0]: each["data"] for each in built if each["kind"] == "ConfigMap"
    }
    named = {name.removeprefix("CLUSTERRA_").lower() for data in settings_of.values() for name in data}
    assert named <= Settings.model_fields.keys()

    for name, value in settings_of["edge-agent"].items():
        monkeypatch.setenv(name, value)
    settings = Settings()
    (agent,) = (each for each in built if each["kind"] == "Deployment" and each["metadata"]["name"] == "edge-agent")
    (container,) = agent["spec"]["template"]["spec"]["containers"]
    mounts = {mount["name"]: Path(mount["mountPath"]) for mount in container["volumeMounts"]}

    assert settings.shared_dir == mounts["shared"]
    assert settings.state_dir.parent == mounts["state"]
    assert settings.nats_credentials_file
    assert settings.nats_credentials_file.parent == mounts["nats"]
    assert settings.agent_key_file
    assert settings.agent_key_file.parent == mounts["gateway"]
    assert settings.kubernetes_namespace == SLURM
    assert settings.health_port == container["ports"][0]["containerPort"]


async def test_the_namespace_admits_all_pods_and_the_agent_meets_the_restricted_profile(
    edge: ControlPlane, agent: Api, built: list[dict[str, Any]]
) -> None:
    await until_pods(agent, "memory-xlarge", 1)
    listed = "--selector=app.kubernetes.io/name=edge-agent"

    async def agents_pod() -> str:
        return await edge.kubectl("get", "pods", f"--namespace={SLURM}", listed, "--output=name")

    await until(agents_pod, seconds=90, what="the agent's pod", every=0.1)
    await edge.kubectl("label", "namespace", SLURM, "pod-security.kubernetes.io/warn=restricted", "--overwrite")
    strictly = ("--dry-run=server", "--warnings-as-errors")
    by_name = {manifest["metadata"]["name"]: manifest for manifest in built if manifest["kind"] == "Deployment"}
    await apply(edge, by_name["edge-agent"], options=strictly)
    with pytest.raises(KubectlFailed, match="would violate PodSecurity"):
        await apply(edge, by_name["slurmd-compute-xs"], options=strictly)


async def test_the_agents_token_permits_all_that_it_needs(agent: Api) -> None:
    deployments, _ = await agent.list(Collection.deployments(SLURM, SHAPE_LABEL))
    assert {deployment.shape for deployment in deployments} == {shape.name for shape in SHAPES}

    await agent.scale("slurmd-compute-small", 2)
    first, second = await until_pods(agent, "compute-small", 2)
    _, version = await agent.list(Collection.pods(SLURM, SHAPE_LABEL))
    async with agent.watch(Collection.pods(SLURM, SHAPE_LABEL), version) as events:
        assert (await agent.set_deletion_cost(first, -1000)).cost == -1000
        assert (await anext(events)).object.name == first.name
    async with agent.watch(Collection.deployments(SLURM, SHAPE_LABEL), version) as events:
        await agent.scale("slurmd-compute-small", 1)
        assert (await anext(events)).object.name == "slurmd-compute-small"

    assert [pod.name for pod in await until_pods(agent, "compute-small", 1)] == [second.name]

    await agent.delete(second)
    await agent.scale("slurmd-compute-small", 0)
    await until_pods(agent, "compute-small", 0)


async def test_the_agent_has_no_other_permissions(edge: ControlPlane, namespace: str) -> None:
    agents_kubeconfig = await edge.service_account(SLURM, "edge-agent")
    nobodys_kubeconfig = await account_without_rights(edge, namespace)
    async with account(agents_kubeconfig) as agent, account(nobodys_kubeconfig) as nobody:
        # Checked even where Karpenter's definitions are missing.
        resources = await agent.resources() | {("karpenter.sh", "nodeclaims"), ("karpenter.sh", "nodepools")}
        everything = [(verb, group, resource) for group, resource in resources for verb in VERBS]
        assert {("", "secrets"), ("", "pods/exec"), ("apps", "deployments/scale")} <= resources

        allowed = await agent.may(everything, SLURM)
        of_nobody = await nobody.may(allowed, SLURM)
        assert allowed - of_nobody == RIGHTS | RIGHTS_EVERYWHERE
        assert await agent.may(everything, "") == of_nobody | RIGHTS_EVERYWHERE
        assert await agent.may(everything, SLURM, lease.NAME) == allowed | LEASE
        assert await agent.may(everything, SLURM, "another") == allowed

        beyond = {("", "nodes", "list,watch"), ("karpenter.sh", "nodeclaims", "delete,list,watch")}
        for elsewhere in (namespace, "kube-system"):
            assert await agent.rules(elsewhere) - await nobody.rules(elsewhere) == beyond
        assert await agent.rules(SLURM) - await nobody.rules(SLURM) == beyond | {
            ("apps", "deployments", "list,watch"),
            ("apps", "deployments/scale", "patch"),
            ("", "pods", "delete,list,patch,watch"),
            ("coordination.k8s.io", "leases", "create"),
            ("coordination.k8s.io", "leases[clusterra-edge-agent]", "get,patch"),
        }


async def test_a_deployment_with_workers_can_only_be_scaled(
    edge: ControlPlane, agent: Api, built: list[dict[str, Any]]
) -> None:
    name = "slurmd-compute-medium"
    in_slurm = (f"deployment/{name}", f"--namespace={SLURM}")
    await agent.scale(name, 2)
    names = {pod.name for pod in await until_pods(agent, "compute-medium", 2)}
    manifest = next(each for each in built if each["metadata"]["name"] == name)
    for denied_call in (
        partial(edge.kubectl, "set", "image", *in_slurm, "slurmd=newer"),
        partial(edge.kubectl, "rollout", "restart", *in_slurm),
        partial(edge.kubectl, "delete", *in_slurm),
        partial(apply, edge, manifest, options=("--force-conflicts",)),
    ):
        with pytest.raises(KubectlFailed, match="this shape has workers, which may run jobs"):
            await denied_call()
    await edge.kubectl("annotate", *in_slurm, "example.com/note=allowed")

    assert {pod.name for pod in await until_pods(agent, "compute-medium", 2)} == names

    await agent.scale(name, 1)
    assert {pod.name for pod in await until_pods(agent, "compute-medium", 1)} < names

    await agent.scale(name, 0)
    await until_pods(agent, "compute-medium", 0)
    await edge.kubectl("set", "image", *in_slurm, "slurmd=newer")
    await agent.scale(name, 1)
    newer = await until_pods(agent, "compute-medium", 1)
    image = await edge.kubectl(
        "get", "pod", newer[0].name, f"--namespace={SLURM}", "--output=jsonpath={.spec.containers[0].image}"
    )

    assert image == "newer"


async def test_a_running_worker_cannot_be_evicted(edge: ControlPlane, agent: Api) -> None:
    await agent.scale("slurmd-general-xs", 1)
    (pod,) = await until_pods(agent, "general-xs", 1)
    await mark_running(edge, pod)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.name, "namespace": SLURM}}

    path = f"/api/v1/namespaces/{SLURM}/pods/{pod.name}/eviction"

    with pytest.raises(KubectlFailed, match="would violate the pod's disruption budget"):
        await edge.kubectl("create", f"--raw={path}", "--filename=-", input=json.dumps(eviction))


async def test_the_deletion_policy_is_known_only_after_a_probe(edge: ControlPlane, agent: Api) -> None:
    await agent.scale("slurmd-compute-small", 1)
    (pod,) = await until_pods(agent, "compute-small", 1)
    assert not can_probe(pod), "the policy does not protect a pod that has never started"

    await mark_running(edge, pod)
    (started,) = await until_pods(agent, "compute-small", 1)
    assert can_probe(started)

    policy = DeletionPolicy(agent)
    assert not await policy.is_enforced(None)
    assert await policy.is_enforced(started)
    assert await policy.is_enforced(None), "the answer is recent"
    assert not can_probe(await agent.set_deletion_cost(started, VICTIM_COST))


async def test_nobody_can_delete_a_running_unmarked_worker(edge: ControlPlane, agent: Api) -> None:
    name = "slurmd-general-small"
    await agent.scale(name, 2)
    first, second = await until_pods(agent, "general-small", 2)
    assert not await agent.deletion_denied(first), "a pod that has never started may be deleted"
    for pod in (first, second):
        await mark_running(edge, pod)
    assert await agent.deletion_denied(first)
    await agent.set_deletion_cost(first, SURPLUS_COST)
    assert await agent.deletion_denied(first), "it was surplus, but has started since"
    with pytest.raises(KubectlFailed, match="this worker may run jobs, and was not marked for deletion"):
        await edge.kubectl("delete", "pod", first.name, f"--namespace={SLURM}", "--force")
    await edge.kubectl("annotate", "pod", first.name, f"--namespace={SLURM}", "clusterra.io/deletable=true")
    assert not await agent.deletion_denied(first), "an administrator has taken responsibility"
    await edge.kubectl("annotate", "pod", first.name, f"--namespace={SLURM}", "clusterra.io/deletable-")
    # Somebody lowers the replicas: the ReplicaSet cannot delete a pod until one is marked.
    await agent.scale(name, 1)
    await agent.set_deletion_cost(second, VICTIM_COST)

    async def is_deleted() -> bool:
        listed, _ = await agent.list(Collection.pods(SLURM, f"{SHAPE_LABEL}=general-small"))
        assert first.name in {pod.name for pod in listed if pod.active}
        return second.name not in {pod.name for pod in listed if pod.active}

    await until(is_deleted, seconds=60, what="the marked worker to be deleted", every=0.1)


async def mark_running(edge: ControlPlane, pod: Pod) -> None:
    """Sets the pod's status as its kubelet would."""
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    of_pod = (pod.name, f"--namespace={SLURM}", "--subresource=status", "--type=merge")
    await edge.kubectl("patch", "pod", *of_pod, f"--patch={json.dumps(running)}")
