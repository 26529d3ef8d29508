"""The examples of k8s/central/README.md are complete, and a release's images cannot change under their names."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from central_manifests import CENTRAL, Manifest, build, kubectl_path, named, overlay, pod_spec
from clusterra_lab.slurm.config import PLUGSTACK_CONF
from clusterra_lab.slurm.isolation import Isolation, files, settings

ROOT = CENTRAL.parents[1]
PLACEHOLDERS = ("replace-me", "192.0.2.", "198.51.100.")
DIGEST = re.compile(r"[^@:]+(:\d+/[^@:]+)?@sha256:[0-9a-f]{64}")
KEYS = {"gateway-oidc", "proxy-jwt-keys", "admin-agent-keys"}
"""Secrets that a pod also starts without."""
PRIVATE_TMP_RIGHTS = {"SYS_ADMIN", "SYS_CHROOT", "DAC_OVERRIDE", "FOWNER"}


@pytest.fixture(scope="module")
async def kubectl() -> Path:
    return await kubectl_path()


def examples() -> list[str]:
    """The overlays of the README, in its order."""
    return re.findall(r"```yaml\n(.+?)```", (CENTRAL / "README.md").read_text(), flags=re.DOTALL)


def example(number: int, folder: Path) -> Path:
    """Writes an overlay of the README into a folder beside a copy of k8s and of what it refers to."""
    copy = folder / "clusterra"
    shutil.copytree(CENTRAL, copy / "k8s" / "central", ignore=shutil.ignore_patterns("secrets"))
    shutil.copytree(ROOT / "images" / "slurm", copy / "images" / "slurm")
    site = folder / "site"
    site.mkdir()
    (site / "kustomization.yaml").write_text(examples()[number])
    return site


def release(folder: Path) -> None:
    """Fills the component with digests, as a release does."""
    component = folder / "clusterra" / "k8s" / "central" / "components" / "digests" / "kustomization.yaml"
    names = [image["name"] for image in yaml.safe_load(component.read_text())["images"]]
    pushed = {
        name.removeprefix("clusterra-"): {
            "containerimage.digest": f"sha256:{number:064x}",
            "image.name": f"registry.example.com/{name}:1.2.0",
        }
        for number, name in enumerate(names, start=1)
    }
    metadata = folder / "images.json"
    metadata.write_text(json.dumps(pushed))
    write = [sys.executable, str(ROOT / "tools" / "image_digests.py"), str(metadata), str(component)]
    subprocess.run(write, check=True, capture_output=True, timeout=60)


def images(manifests: list[Manifest]) -> set[str]:
    return {
        container["image"]
        for manifest in manifests
        if (spec := pod_spec(manifest)) is not None
        for container in (*spec.get("initContainers", ()), *spec["containers"])
    }


def mutable(found: set[str]) -> set[str]:
    return {image for image in found if not DIGEST.fullmatch(image) or image.endswith(64 * "0")}


def test_the_readmes_site_is_complete_and_its_images_are_digests(kubectl: Path, tmp_path: Path) -> None:
    site = example(0, tmp_path)
    unfilled = build(kubectl, site)
    release(tmp_path)

    built = build(kubectl, site)

    assert mutable(images(unfilled)) == images(unfilled), "a component that no release has filled is found"
    assert mutable(images(built)) == set()
    text = json.dumps(built)
    assert not [placeholder for placeholder in PLACEHOLDERS if placeholder in text]


def test_the_readmes_sessions_have_a_host_name_that_leads_to_their_port(kubectl: Path, tmp_path: Path) -> None:
    site = example(0, tmp_path)
    release(tmp_path)
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    (sessions / "kustomization.yaml").write_text(examples()[2])

    without, built = build(kubectl, site), build(kubectl, sessions)

    host = "sessions.example.net"
    assert host not in json.dumps(without)
    assert "8082" not in json.dumps(without)
    assert not [placeholder for placeholder in PLACEHOLDERS if placeholder in json.dumps(built)]
    gateway, route = named(built, "Gateway", "clusterra"), named(built, "HTTPRoute", "sessions")["spec"]
    listeners = {each["name"]: each["hostname"] for each in gateway["spec"]["listeners"]}
    assert listeners == {"https": "gateway.example.com", "sessions": host}
    assert named(built, "HTTPRoute", "gateway")["spec"]["hostnames"] == ["gateway.example.com"]
    assert (route["hostnames"], route["parentRefs"][0]["sectionName"]) == ([host], "sessions")
    ports = {each["port"]: each["targetPort"] for each in named(built, "Service", "gateway")["spec"]["ports"]}
    pod = pod_spec(named(built, "Deployment", "gateway"))
    assert pod is not None
    of_pod = {each["name"]: each["containerPort"] for each in pod["containers"][0]["ports"]}
    assert of_pod[ports[route["rules"][0]["backendRefs"][0]["port"]]] == 8082
    (variables,) = (
        each["data"] for each in built if each["kind"] == "ConfigMap" and each["metadata"]["name"].startswith("gateway")
    )
    assert variables["CLUSTERRA_SESSIONS_URL"] == f"https://{host}"


def test_the_readmes_tenant_is_complete(kubectl: Path, tmp_path: Path) -> None:
    site = example(1, tmp_path)
    release(tmp_path)
    (site / "secrets").mkdir()
    for name in ("slurm.key", "jwt_hs256.key", "slurmdbd-password"):
        (site / "secrets" / name).write_text("secret")
    (site / "cluster.conf").write_text(
        re.findall(r"```\n(ClusterName.+?)```", (CENTRAL / "README.md").read_text(), flags=re.DOTALL)[0]
    )

    built = build(kubectl, site)

    assert {each["metadata"]["namespace"] for each in built if each["kind"] != "Namespace"} == {"tenant-acme"}
    assert {image for image in mutable(images(built)) if "clusterra" in image} == set()
    assert named(built, "Namespace", "tenant-acme")["metadata"]["labels"]["clusterra.io/tenant"] == "acme"
    text = json.dumps(built)
    assert "slurmctld.acme.example.com" in text
    assert not [placeholder for placeholder in PLACEHOLDERS if placeholder in text]


def test_the_secrets_of_the_command_are_all_that_the_pods_mount(kubectl: Path, tmp_path: Path) -> None:
    component = tmp_path / "plain-secrets"
    shutil.copytree(CENTRAL / "components" / "plain-secrets", component, ignore=shutil.ignore_patterns("secrets"))
    init = [sys.executable, "-m", "clusterra_admin", "secrets", "init", str(component / "secrets")]
    subprocess.run(init, check=True, capture_output=True, timeout=60)
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(CENTRAL / "overlays" / "dev", tmp_path)],
        "components": ["plain-secrets"],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))

    built = build(kubectl, tmp_path)

    made = {each["metadata"]["name"] for each in built if each["kind"] == "Secret"}
    mounted = {
        volume["secret"]["secretName"]: volume["secret"].get("optional", False)
        for each in built
        if (spec := pod_spec(each)) is not None
        for volume in spec["volumes"]
        if "secret" in volume
    }
    assert {name for name, optional in mounted.items() if optional} == KEYS
    assert made == mounted.keys() - KEYS


def test_external_secrets_make_the_same_secrets(kubectl: Path, tmp_path: Path) -> None:
    plain = yaml.safe_load((CENTRAL / "components" / "plain-secrets" / "kustomization.yaml").read_text())
    external = list(yaml.safe_load_all((CENTRAL / "components" / "external-secrets" / "secrets.yaml").read_text()))

    files = {each["name"]: each["files"] for each in plain["secretGenerator"]}
    keys = {
        each["metadata"]["name"]: [
            f"secrets/{entry['remoteRef']['key'].removeprefix('clusterra/')}" for entry in each["spec"]["data"]
        ]
        for each in external
        if "data" in each["spec"]
    }

    assert keys == files
    assert {each["metadata"]["name"] for each in external} - keys.keys() == {
        "proxy-jwt-keys",
        "admin-agent-keys",
    }


def lines(text: str) -> set[str]:
    """The lines of a configuration without comments."""
    return {line for line in text.splitlines() if line and not line.startswith("#")}


def test_slurmdbd_is_configured_as_in_the_lab() -> None:
    from clusterra_lab.slurm.config import ClusterOptions, SlurmConfig, slurmdbd_conf

    lab = slurmdbd_conf(SlurmConfig(ClusterOptions(own_hosts=True), slurmctld_port=6817, slurmdbd_port=6819))

    assert lines((CENTRAL / "tenant" / "slurmdbd.conf").read_text()) == lines(lab)


def test_slurm_is_configured_as_in_the_lab(tmp_path: Path) -> None:
    from clusterra_lab.slurm.config import ClusterOptions, SlurmConfig, slurm_conf

    options = ClusterOptions(name="main", one_host=False, max_nodes=100)
    lab = lines(slurm_conf(SlurmConfig(options, slurmctld_port=6817, slurmdbd_port=6819)))
    tenant = lines(
        "".join(
            (CENTRAL / "tenant" / name).read_text()
            for name in ("slurm.conf", "isolation.conf", "private-tmp.conf", "cluster.conf")
        )
    )

    def names(lines: set[str]) -> set[str]:
        return {line.partition("=")[0] for line in lines}

    # Addresses; a machine of the lab is smaller than it says; a worker at the edge may be away for longer.
    assert names(tenant - lab) == {
        "include cluster.conf",
        "include isolation.conf",
        "include private-tmp.conf",
        "SlurmctldHost",
        "AccountingStorageHost",
        "SlurmdTimeout",
    }
    assert names(lab - tenant) == {
        "SlurmctldHost",
        "AccountingStorageHost",
        "SlurmdTimeout",
        "CommunicationParameters",
        "SlurmdParameters",
    }


COMPONENTS = [(), ("private-tmp",), ("cgroups",), ("private-tmp", "cgroups"), ("cgroups", "private-tmp")]


@pytest.mark.parametrize("components", COMPONENTS)
async def test_the_tenants_components_are_the_labs_isolation(components: tuple[str, ...], tmp_path: Path) -> None:
    tenant = CENTRAL / "tenant"
    level: Isolation = "cgroups" if "cgroups" in components else "polled"
    private_tmp = "private-tmp" in components
    site = overlay(tmp_path, resources=[tenant], components=[tenant / name for name in components])

    built = build(await kubectl_path(), site)

    (slurm,) = (each["data"] for each in built if each["kind"] == "ConfigMap" and "slurm.conf" in each["data"])
    included = slurm["isolation.conf"] + slurm["private-tmp.conf"]
    assert lines(included) == lines(settings(level, private_tmp=private_tmp))
    beside = {name: slurm[name] for name in ("cgroup.conf", "job_container.conf") if name in slurm}
    assert beside == files(level, private_tmp=private_tmp)
    assert slurm["plugstack.conf"] == PLUGSTACK_CONF


async def test_only_workers_lose_seccomp_by_the_component_for_user_namespaces(tmp_path: Path) -> None:
    edge = CENTRAL.parent / "edge"
    site = overlay(
        tmp_path, resources=[edge], components=[edge / name for name in ("private-tmp", "user-namespaces", "cgroups")]
    )

    built = build(await kubectl_path(), site)

    seccomp = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]["securityContext"]["seccompProfile"]["type"]
        for each in built
        if each["kind"] == "Deployment"
    }
    assert seccomp.pop("edge-agent") == "RuntimeDefault"
    assert set(seccomp.values()) == {"Unconfined"}
    level = named(built, "Namespace", "slurm")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert level == "privileged"


@pytest.mark.parametrize(
    ("components", "rights", "variables"),
    [
        ((), set(), set()),
        (("private-tmp",), PRIVATE_TMP_RIGHTS, {"CLUSTERRA_PRIVATE_TMP"}),
        (("cgroups",), {"SYS_ADMIN"}, {"CLUSTERRA_CGROUPS"}),
        (("private-tmp", "cgroups"), PRIVATE_TMP_RIGHTS, {"CLUSTERRA_PRIVATE_TMP", "CLUSTERRA_CGROUPS"}),
        (("cgroups", "private-tmp"), PRIVATE_TMP_RIGHTS, {"CLUSTERRA_PRIVATE_TMP", "CLUSTERRA_CGROUPS"}),
    ],
)
async def test_only_workers_get_the_rights_of_the_edges_components(
    components: tuple[str, ...], rights: set[str], variables: set[str], tmp_path: Path
) -> None:
    edge = CENTRAL.parent / "edge"
    site = overlay(tmp_path, resources=[edge], components=[edge / name for name in components])

    built = build(await kubectl_path(), site)

    workers = [each for each in built if each["kind"] == "Deployment" and "slurmd-" in each["metadata"]["name"]]
    for each in workers:
        context = each["spec"]["template"]["spec"]["containers"][0]["securityContext"]
        assert set(context["capabilities"]["add"]) == {"CHOWN", "KILL", "SETGID", "SETUID"} | rights
        assert context.get("appArmorProfile") == ({"type": "Unconfined"} if components else None)
    others = [
        container
        for each in built
        if each["kind"] == "Deployment" and each not in workers
        for container in each["spec"]["template"]["spec"]["containers"]
    ]
    assert workers
    assert others
    assert not any(container["securityContext"]["capabilities"].get("add") for container in others)
    level = named(built, "Namespace", "slurm")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert level == ("privileged" if components else "baseline")
    (variables_set,) = (
        each["data"] for each in built if each["kind"] == "ConfigMap" and each["metadata"]["name"].startswith("slurmd")
    )
    assert {name for name, value in variables_set.items() if value == "yes"} == variables


async def test_only_the_agent_gets_the_rights_of_staging_and_no_more(tmp_path: Path) -> None:
    edge = CENTRAL.parent / "edge"
    site = overlay(tmp_path, resources=[edge], components=[edge / "staging"])

    built = build(await kubectl_path(), site)

    pod = pod_spec(named(built, "Deployment", "edge-agent"))
    assert pod is not None
    (agent,) = pod["containers"]
    assert agent["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["SETGID", "SETUID"]}
    assert agent["securityContext"]["allowPrivilegeEscalation"] is False
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]) == (0, 65532)
    assert [mount.get("readOnly", False) for mount in agent["volumeMounts"]] == [False, False, True, True]
    level = named(built, "Namespace", "slurm")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert level == "baseline"


def test_the_gateway_has_a_key_of_slurm_only_with_the_component_for_other_agents(kubectl: Path, tmp_path: Path) -> None:
    """Whoever has a key of Slurm can act as anybody there."""

    def mounting(*components: str) -> dict[str, set[str]]:
        folder = tmp_path / ("-".join(components) or "plain")
        folder.mkdir()
        chosen = [CENTRAL / "components" / each for each in components]
        built = build(kubectl, overlay(folder, resources=[CENTRAL / "overlays" / "prod"], components=chosen))
        return {
            each["metadata"]["name"]: {
                volume["secret"]["secretName"]
                for volume in (pod_spec(each) or {}).get("volumes", ())
                if "slurm-keys" in volume.get("secret", {}).get("secretName", "")
            }
            for each in built
            if each["kind"] in ("Deployment", "StatefulSet")
        }

    assert not any(mounting().values())
    of_agents = mounting("slurm-keys-for-agents")
    assert of_agents.pop("gateway") == {"gateway-slurm-keys"}
    assert not any(of_agents.values())


def test_no_secret_of_slurm_is_brought_to_the_gateway_nor_may_it_read_one() -> None:
    brought = (CENTRAL / "components" / "external-secrets" / "secrets.yaml").read_text()
    rights = list(yaml.safe_load_all((CENTRAL / "tenant" / "secret-references" / "rights.yaml").read_text()))

    readers = [subject["name"] for each in rights if each["kind"] == "RoleBinding" for subject in each["subjects"]]
    assert "slurm" not in brought
    assert readers == ["proxy"]
