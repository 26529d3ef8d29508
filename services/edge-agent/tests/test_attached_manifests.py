"""The manifests of k8s/edge/slinky and k8s/edge/soperator, on a real API server with those operators' definitions."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from clusterra_edge_agent.kubernetes.election import lease
from clusterra_edge_agent.settings import Settings
from clusterra_lab.kube.kubernetes import ControlPlane
from kube_account import LEASE, VERBS, Right, account
from kube_definitions import define, definitions
from kube_plane import account_without_rights, unscheduled
from kube_release import DIGESTS, readme_overlays, released_images

ROOT = Path(__file__).parents[3]
EDGE = ROOT / "k8s" / "edge"
TARGETS = ("slinky", "soperator")
ALWAYS: set[Right] = {("list", "", "pods"), ("watch", "", "pods"), ("create", "coordination.k8s.io", "leases")}
RIGHTS: dict[str, set[Right]] = {
    "slinky": ALWAYS
    | {
        ("patch", "", "pods"),
        ("delete", "", "pods"),
        ("list", "slinky.slurm.net", "nodesets"),
        ("watch", "slinky.slurm.net", "nodesets"),
        ("patch", "slinky.slurm.net", "nodesets/scale"),
    },
    "soperator": ALWAYS
    | {
        ("list", "slurm.nebius.ai", "nodesets"),
        ("watch", "slurm.nebius.ai", "nodesets"),
        ("list", "slurm.nebius.ai", "nodesetpowerstates"),
        ("watch", "slurm.nebius.ai", "nodesetpowerstates"),
        ("patch", "slurm.nebius.ai", "nodesetpowerstates"),
    },
}
"""All permissions of the agent in its own namespace."""


@pytest.fixture(scope="module")
async def defined(plane: ControlPlane) -> None:
    """The definitions of both operators are in force."""
    await define(plane, [path for target in TARGETS for path in await definitions(target)])


async def site(plane: ControlPlane, target: str, folder: Path) -> list[dict[str, Any]]:
    """Builds the README's overlay, which adds the agent to the namespace of an existing cluster."""
    overlay = readme_overlays()[1]
    base = os.path.relpath(EDGE / target, folder)
    overlay = overlay.replace("../clusterra/k8s/edge/slinky", base).replace("acme-slurm", target)
    overlay = overlay.replace(DIGESTS, released_images(folder))
    (folder / "kustomization.yaml").write_text(overlay)
    return list(yaml.safe_load_all(await plane.kubectl("kustomize", str(folder))))


@pytest.mark.usefixtures("defined")
@pytest.mark.parametrize("target", TARGETS)
async def test_a_sites_manifests_are_accepted_and_grant_exactly_the_agents_permissions(
    plane: ControlPlane, namespace: str, target: str, tmp_path: Path
) -> None:
    await plane.kubectl("create", "namespace", target)
    manifests = await site(plane, target, tmp_path)
    kinds = {manifest["kind"] for manifest in manifests}
    assert kinds >= {"ServiceAccount", "Role", "RoleBinding", "Deployment", "ConfigMap", "NetworkPolicy"}
    assert not kinds & {"Namespace", "NodePool", "ValidatingAdmissionPolicy"}, "existing objects belong to the site"
    assert {manifest["metadata"].get("namespace") for manifest in manifests} == {target, None}
    assert [each["metadata"]["name"] for each in manifests if each["kind"] == "Deployment"] == ["edge-agent"]
    how = ("apply", "--server-side", "--validate=strict", "--filename=-")
    everything = yaml.safe_dump_all(manifests)
    assert "replace-me" not in everything
    accepted = await plane.kubectl(*how, "--dry-run=server", input=everything)
    assert len(accepted.splitlines()) == len(manifests)
    await plane.kubectl(*how, "--force-conflicts", input=yaml.safe_dump_all(unscheduled(manifests)))

    agents_kubeconfig = await plane.service_account(target, "edge-agent")
    nobodys_kubeconfig = await account_without_rights(plane, namespace)
    async with account(agents_kubeconfig) as agent, account(nobodys_kubeconfig) as nobody:
        resources = await agent.resources()
        assert {("", "secrets"), ("", "pods/exec"), ("slinky.slurm.net", "nodesets/scale")} <= resources
        rights = [(verb, group, resource) for group, resource in resources for verb in VERBS]
        allowed = await agent.may(rights, target)
        of_nobody = await nobody.may(allowed, target)
        assert allowed - of_nobody == RIGHTS[target]
        assert await agent.may(rights, "") == of_nobody
        assert await agent.may(rights, target, lease.NAME) == allowed | LEASE
        assert await agent.may(rights, target, "another") == allowed
        assert await agent.rules(namespace) == await nobody.rules(namespace)


@pytest.mark.parametrize("target", TARGETS)
async def test_the_agents_settings_name_its_target(
    plane: ControlPlane, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifests = await site(plane, target, tmp_path)
    (variables,) = (manifest["data"] for manifest in manifests if manifest["kind"] == "ConfigMap")
    assert {name.removeprefix("CLUSTERRA_").lower() for name in variables} <= Settings.model_fields.keys()

    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings = Settings()
    assert (settings.substrate, settings.kubernetes_target) == ("kubernetes", target)
    assert settings.kubernetes_namespace == target
