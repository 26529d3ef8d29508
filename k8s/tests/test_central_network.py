"""The network policies of k8s/central allow exactly the connections of the table in its README."""

import json
import re
from itertools import product
from pathlib import Path

import pytest
from central_manifests import CENTRAL, Manifest, build, kubectl_path, overlay, pod_spec
from reachability import Address, End, Pod, Policy, reaches

TENANTS = ("acme", "other")
PORTS = (22, 53, 80, 443, 3306, 4222, 4317, 4318, 6222, 6817, 6818, 6819, 6820, 8080, 8081, 8082, 8222, 10250)
OUTSIDE: dict[str, End] = {
    "edge": Address("edge", "10.40.0.7"),
    "internet": Address("internet", "203.0.113.7"),
    "elsewhere": Address("elsewhere", "10.9.9.9"),
    "metadata": Address("metadata", "169.254.169.254"),
    "ingress": Pod("ingress", "envoy", {}, {"clusterra.io/ingress": "true"}),
    "monitoring": Pod("monitoring", "monitoring", {}, {"kubernetes.io/metadata.name": "monitoring"}),
    "stranger": Pod(
        "stranger", "default", {"app.kubernetes.io/name": "proxy"}, {"kubernetes.io/metadata.name": "default"}
    ),
}
DNS = Pod("dns", "kube-system", {"k8s-app": "kube-dns"}, {"kubernetes.io/metadata.name": "kube-system"})

type Flow = tuple[str, str, int]


@pytest.fixture(scope="module")
async def manifests(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    """The prod overlay and the control planes of two tenants."""
    kubectl = await kubectl_path()
    built = build(kubectl, CENTRAL / "overlays" / "prod")
    for tenant in TENANTS:
        folder = overlay(
            tmp_path_factory.mktemp(tenant),
            resources=[CENTRAL / "tenant"],
            components=[CENTRAL / "tenant" / "mariadb", CENTRAL / "tenant" / "peering"],
            namespace=f"tenant-{tenant}",
        )
        built += build(kubectl, folder)
    return built


@pytest.fixture(scope="module")
def policies(manifests: list[Manifest]) -> list[Policy]:
    """With a private network for the edge in place of the one for documentation, as a site sets it."""
    found = [manifest for manifest in manifests if manifest["kind"] == "NetworkPolicy"]
    sites: list[Policy] = json.loads(json.dumps(found).replace("192.0.2.0/24", "10.40.0.0/16"))
    return sites


@pytest.fixture(scope="module")
def ends(manifests: list[Manifest]) -> dict[str, End]:
    """A pod of each workload, by its name, in tenants with the namespace's suffix; and the others."""
    labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in manifests if each["kind"] == "Namespace"}
    found: dict[str, End] = dict(OUTSIDE)
    for manifest in manifests:
        if pod_spec(manifest) is None:
            continue
        namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        of_namespace = {**labels[namespace], "kubernetes.io/metadata.name": namespace}
        pod = Pod(name, namespace, manifest["spec"]["template"]["metadata"]["labels"], of_namespace)
        found[_name(name, namespace)] = pod
    return found


def _name(workload: str, namespace: str) -> str:
    return workload if namespace == "clusterra" else f"{workload} of {namespace.removeprefix('tenant-')}"


def documented(ends: dict[str, End]) -> set[Flow]:
    """The rows of the README's table, with Slurm's daemons once for each tenant."""
    text = (CENTRAL / "README.md").read_text().split("## Who may reach whom")[1]
    flows = set()
    for line in text.splitlines():
        if not (row := re.fullmatch(r"\| ([a-z, -]+) \| ([a-z, -]+) \| ([0-9, ]+) \| .+ \|", line)):
            continue
        sources, targets, ports = (cell.split(", ") for cell in row.groups())
        for source, target, port in product(sources, targets, ports):
            for tenant in TENANTS:
                one, other = (end if end in ends else f"{end} of {tenant}" for end in (source, target))
                flows.add((one, other, int(port)))
    assert {end for flow in flows for end in flow[:2]} <= ends.keys()
    return flows


def test_the_policies_allow_exactly_what_the_readme_says(policies: list[Policy], ends: dict[str, End]) -> None:
    allowed = {
        (source, target, port)
        for (source, one), (target, other), port in product(ends.items(), ends.items(), PORTS)
        if (source not in OUTSIDE or target not in OUTSIDE) and reaches(policies, one, other, port)
    }

    # Between two outsiders no policy of ours decides.
    assert allowed == documented(ends)


def test_the_table_names_every_workload(ends: dict[str, End]) -> None:
    named = {end for flow in documented(ends) for end in flow[:2]}

    assert named == ends.keys() - {"elsewhere", "metadata", "stranger"}


async def test_sessions_open_their_port_to_the_ingress_alone(
    policies: list[Policy], ends: dict[str, End], tmp_path: Path
) -> None:
    component = CENTRAL / "components" / "sessions"
    site = overlay(tmp_path, resources=[CENTRAL / "overlays" / "prod"], components=[component])
    known = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in policies}

    added = [
        each
        for each in build(await kubectl_path(), site)
        if each["kind"] == "NetworkPolicy" and (each["metadata"]["namespace"], each["metadata"]["name"]) not in known
    ]

    opened = {
        (source, target, port)
        for (source, one), (target, other), port in product(ends.items(), ends.items(), PORTS)
        if reaches([*policies, *added], one, other, port) and not reaches(policies, one, other, port)
    }
    assert opened == {("ingress", "gateway", 8082)}


def test_every_pod_may_ask_the_dns(policies: list[Policy], ends: dict[str, End]) -> None:
    for name, end in ends.items():
        if name not in OUTSIDE:
            assert reaches(policies, end, DNS, 53)
            assert reaches(policies, end, DNS, 53, "UDP")
            assert not reaches(policies, DNS, end, 53)


def test_no_tenant_reaches_another(policies: list[Policy], ends: dict[str, End]) -> None:
    for (source, one), (target, other) in product(ends.items(), ends.items()):
        if source.endswith(" of acme") and target.endswith(" of other"):
            assert not any(reaches(policies, one, other, port) for port in PORTS), (source, target)


@pytest.mark.parametrize("name", ["dev", "prod"])
async def test_every_namespace_denies_what_no_policy_names(name: str) -> None:
    built = build(await kubectl_path(), CENTRAL / "overlays" / name)
    namespaces = {each["metadata"]["name"] for each in built if each["kind"] == "Namespace"}
    denials = {
        each["metadata"]["namespace"]
        for each in built
        if each["kind"] == "NetworkPolicy" and each["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    }

    assert namespaces == denials == {"clusterra"}


def test_the_folder_has_no_more_than_twenty_files() -> None:
    folders: dict[Path, int] = {}
    for path in CENTRAL.rglob("*"):
        if path.is_file():
            folders[path.parent] = folders.get(path.parent, 0) + 1

    assert max(folders.values()) <= 20
